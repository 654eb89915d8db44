package admin

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNoDB is what an Admin answers that was made without a database.
var ErrNoDB = errors.New("admin: New was given no database; give it a *pgxpool.Pool or a *pgx.Conn")

// noDB stands in for a database that is nil.
type noDB struct{}

func (noDB) Query(context.Context, string, ...any) (pgx.Rows, error) { return nil, ErrNoDB }
func (noDB) QueryRow(context.Context, string, ...any) pgx.Row        { return noRow{} }
func (noDB) SendBatch(context.Context, *pgx.Batch) pgx.BatchResults  { return noResults{} }
func (noDB) BeginTx(context.Context, pgx.TxOptions) (pgx.Tx, error)  { return nil, ErrNoDB }

type noRow struct{}

func (noRow) Scan(...any) error { return ErrNoDB }

// noResults has what is used of the interface that it embeds.
type noResults struct{ pgx.BatchResults }

func (noResults) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, ErrNoDB }
func (noResults) Query() (pgx.Rows, error)         { return nil, ErrNoDB }
func (noResults) QueryRow() pgx.Row                { return noRow{} }
func (noResults) Close() error                     { return ErrNoDB }
