package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/migrations"
	"github.com/inboxd/inboxd/ordering"
)

// Options say what a test's database holds and how its lanes are run. The zero
// Options are a database with inboxd's schema alone.
type Options struct {
	// Setup is SQL that makes the business tables, any number of statements. It
	// runs once for all tests of a process that have the same Setup; each gets a
	// copy. Default: none.
	Setup string
	// Prepare does what SQL alone cannot, such as calling a migration tool. It
	// runs for each test, after Setup. Default: nothing.
	Prepare func(ctx context.Context, pool *pgxpool.Pool) error
	// Schema is where inboxd's tables are. Default "inboxd".
	Schema string
	// Config says how lanes are run. Its Schema and UntilIdle are the kit's;
	// Workers is 4 by default, all else as in package ordering. Backoffs take no
	// time, see Run, so there is no need for a quick Retry.
	Config ordering.Config
	// Pool may change how the pool connects: types, tracers, settings. Default:
	// nothing.
	Pool func(*pgxpool.Config)
	// Timeout is how long one Run may take before the test fails. Default 1 min.
	Timeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Schema == "" {
		o.Schema = inbox.DefaultSchema
	}
	if o.Config.Workers == 0 {
		o.Config.Workers = 4
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	o.Config.Schema, o.Config.UntilIdle = o.Schema, false
	return o
}

// key is the same for options whose databases begin alike.
func (o Options) key() string { return "inboxtest\x00" + o.Schema + "\x00" + o.Setup }

// fill makes the tables in an empty database.
func (o Options) fill(url string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, _, err := migrations.Up(ctx, conn, o.Schema); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, o.Setup); err != nil {
		return fmt.Errorf("run Options.Setup: %w", err)
	}
	return nil
}
