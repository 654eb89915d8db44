package inbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"
)

// SQLTx is what is needed of a transaction of database/sql. *sql.Tx has it, and
// with it whatever is made on one: sqlx.Tx.Tx, that of an ent driver, and with GORM
// tx.Statement.ConnPool within a db.Transaction, as it is, also with PrepareStmt.
// Any driver for PostgreSQL does: pgx's stdlib, lib/pq.
//
// Of anything but a *sql.Tx, such as a *sql.Conn in which a transaction was begun
// by hand, it is made sure first, in two short round trips, that there is a
// transaction: what is added or claimed without one would stand alone.
type SQLTx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// AddSQL is Add in a transaction of database/sql.
func (s *Store) AddSQL(ctx context.Context, tx SQLTx, events ...Event) ([]Outcome, error) {
	return s.add(events, func(c *columns) (outcomes string, err error) {
		if err := checkTransaction(ctx, tx); err != nil {
			return "", err
		}
		args, err := c.stageTexts()
		if err != nil {
			return "", err
		}
		err = tx.QueryRowContext(ctx, s.sql.stage, args...).Scan(&outcomes)
		return outcomes, err
	})
}

// stageTypes are the types of stage()'s arguments. Headers go as text, which the
// statement makes jsonb of.
var stageTypes = [...]uint32{pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.Int8ArrayOID,
	pgtype.ByteaArrayOID, pgtype.TextArrayOID, pgtype.TimestamptzArrayOID}

// stageTexts are stageArgs as every driver can send them: arrays in PostgreSQL's
// own notation.
func (c *columns) stageTexts() ([]any, error) {
	args := c.stageArgs()
	types := pgtype.NewMap()
	for i, arg := range args {
		if arg == nil {
			continue
		}
		text, err := types.Encode(stageTypes[i], pgtype.TextFormatCode, arg, nil)
		if err != nil {
			return nil, fmt.Errorf("encode column %d: %w", i+1, err)
		}
		args[i] = string(text)
	}
	return args, nil
}

// transactionSQL answers another number in each statement unless they are of one
// transaction.
const transactionSQL = `select pg_current_xact_id()::text`

// errNoTransaction is the answer to a database or a connection on which no
// transaction was begun.
var errNoTransaction = &invalid{"there is no transaction: this has to be called between the beginning of a transaction and its commit, with the *sql.Tx"}

func checkTransaction(ctx context.Context, tx SQLTx) error {
	switch t := tx.(type) {
	case nil:
		return errNilTx
	case *sql.Tx:
		if t == nil {
			return errNilTx
		}
		return nil
	case *sql.DB:
		return errNoTransaction
	}
	var now, then string
	for _, number := range []*string{&now, &then} {
		if err := tx.QueryRowContext(ctx, transactionSQL).Scan(number); err != nil {
			return fmt.Errorf("look for the transaction: %w", err)
		}
	}
	if now != then {
		return errNoTransaction
	}
	return nil
}
