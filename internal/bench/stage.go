package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/database"
	"github.com/inboxd/inboxd/migrations"
)

// What inboxd runs with unless a scenario is about something else: the defaults
// of its configuration. A process's pool has room for reserve connections beside
// the workers', as that of serve.
const (
	workers = 16
	batch   = 16
	reserve = 5
)

// stage is a schema of inboxd's with the accounts that handlers change, and a
// second one for the references.
type stage struct {
	b      *bench
	schema string
	pool   *pgxpool.Pool
	watch  *watch
	store  *inbox.Store
	own    accounts // changed by inboxd's handlers
	other  accounts // changed by the reference
}

// newStage makes a stage with so many aggregates. Whoever got it closes it.
func (b *bench) newStage(ctx context.Context, aggregates, connections int) (*stage, error) {
	b.stages++
	s := &stage{b: b, schema: fmt.Sprintf("%s_%d", b.schema, b.stages), watch: &watch{}}
	var err error
	if s.pool, err = openPool(b.URL, connections, s.watch); err != nil {
		return nil, err
	}
	s.store = inbox.NewStore(s.pool, s.schema)
	if err := s.build(ctx, aggregates); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) build(ctx context.Context, aggregates int) error {
	err := s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		_, _, err := migrations.Up(ctx, c.Conn(), s.schema)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.exec(ctx, "create schema {other}"); err != nil {
		return err
	}
	for _, table := range []string{"{schema}.accounts", "{other}.accounts"} {
		if err := s.exec(ctx, strings.ReplaceAll(accountsTable, "{accounts}", table)); err != nil {
			return err
		}
		if err := s.exec(ctx, strings.ReplaceAll(openAccounts, "{accounts}", table), aggregates); err != nil {
			return err
		}
	}
	s.own = accounts{table: s.in("{schema}.accounts")}
	s.other = accounts{table: s.in("{other}.accounts")}
	return nil
}

// openPool opens a pool as serve has it. It hears of queries if tracer is not nil.
func openPool(url string, connections int, tracer pgx.QueryTracer) (*pgxpool.Pool, error) {
	plain, err := database.Open(database.Config{URL: url, MaxConnections: connections})
	if err != nil {
		return nil, err
	}
	config := plain.Config()
	plain.Close()
	if tracer != nil {
		config.ConnConfig.Tracer = tracer
	}
	return pgxpool.NewWithConfig(context.Background(), config)
}

// in puts the names of the schemas into a statement.
func (s *stage) in(sql string) string {
	return strings.NewReplacer(
		"{schema}", pgx.Identifier{s.schema}.Sanitize(),
		"{other}", pgx.Identifier{s.schema + "_other"}.Sanitize(),
	).Replace(sql)
}

func (s *stage) exec(ctx context.Context, sql string, args ...any) error {
	_, err := s.pool.Exec(ctx, s.in(sql), args...)
	return err
}

// one reads a single value.
func one[T any](ctx context.Context, db inbox.DB, sql string, args ...any) (T, error) {
	var v T
	err := db.QueryRow(ctx, sql, args...).Scan(&v)
	return v, err
}

// close drops what the stage made.
func (s *stage) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.exec(ctx, "drop schema if exists {schema}, {other} cascade"); err != nil {
		s.b.remark("the schemas %s and %[1]s_other could not be dropped: %v", s.schema, err)
	}
	s.pool.Close()
}

// settle is called before a side is timed: tables are vacuumed and analyzed, as
// autovacuum would have them soon, and this process's garbage is gone.
func (s *stage) settle(ctx context.Context) error {
	const tables = `select c.oid::regclass::text from pg_class c
		where c.relnamespace in ($1::regnamespace, $2::regnamespace) and c.relkind = 'r'`
	rows, err := s.pool.Query(ctx, tables, s.in("{schema}"), s.in("{other}"))
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	if _, err := s.pool.Exec(ctx, "vacuum (analyze) "+strings.Join(names, ", ")); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	runtime.GC()
	return nil
}

// checkpoint has the server write what is dirty now rather than while a side is
// timed. A user who may not do that goes without.
func (s *stage) checkpoint(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "checkpoint")
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == "42501" { // insufficient_privilege
		return nil
	}
	return err
}

// prepare makes ready for a side: a checkpoint, then the events, then the tables.
func (s *stage) prepare(ctx context.Context, feed func(context.Context) error) error {
	if err := s.checkpoint(ctx); err != nil {
		return err
	}
	if err := feed(ctx); err != nil {
		return err
	}
	return s.settle(ctx)
}

// parallel runs f for each of n parts at once and answers the first error.
func parallel(ctx context.Context, n int, f func(ctx context.Context, part int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var parts sync.WaitGroup
	for part := range n {
		parts.Go(func() {
			if err := f(ctx, part); err != nil {
				cancel(err)
			}
		})
	}
	parts.Wait()
	return context.Cause(ctx)
}
