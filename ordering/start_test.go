package ordering_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
	"github.com/inboxd/inboxd/ordering"
)

// A set-up that no waiting mends ends Run at its start, with a sentence.
func TestRunRefusesAWrongSetUp(t *testing.T) {
	t.Parallel()
	powerless := pgtest.RolePrefix(t) + "powerless"
	s := setup(t)
	s.exec(`create schema empty`)
	s.exec(`create role ` + powerless + ` login`)
	pool := func(change func(c *pgxpool.Config)) *pgxpool.Pool {
		config := s.pool.Config()
		change(config)
		p, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	closed := pool(func(*pgxpool.Config) {})
	closed.Close()
	run := func(pool *pgxpool.Pool, schema, want string) error {
		t.Helper()
		p, err := ordering.New(pool, handlers.New(), ordering.Config{Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err = p.Run(ctx); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
		return err
	}
	for _, schema := range []string{"nowhere", "empty"} {
		var wrong *ordering.SchemaError
		if err := run(s.pool, schema, "make it with inboxd migrate up"); !errors.As(err, &wrong) || wrong.Schema != schema || wrong.Want != migrations.Version {
			t.Errorf("got %#v", wrong)
		}
	}
	run(closed, "", "closed pool")
	run(pool(func(c *pgxpool.Config) { c.ConnConfig.Database = "nowhere" }), "", "nowhere")
	as, err := pgxpool.ParseConfig(pgtest.As(t, s.url, powerless))
	must(t, err)
	run(pgtest.PoolConfig(t, as), "", "permission denied")
	s.exec(`update inboxd.schema_version set version = version - 1`)
	run(s.pool, "", "bring it up to date with inboxd migrate up")
	s.exec(`update inboxd.schema_version set version = version + 2`)
	run(s.pool, "", "build the program with a newer inboxd")
}

func TestRunTwice(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p, err := ordering.New(s.pool, handlers.New(), ordering.Config{UntilIdle: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "make another one with New") {
		t.Errorf("the second Run: %v", err)
	}
}

// A handler that puts its event off costs those before it nothing: each runs once,
// and the limit lets one a moment through.
func TestLimitsLetALaneOn(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, 8)
	calls := map[string]int{}
	reg := handlers.New()
	handlers.On(reg, "Paid", func(_ context.Context, _ pgx.Tx, e handlers.Event[[]byte]) error {
		calls[e.ID]++ // Concurrency(1) guards it
		return nil
	}, handlers.WithMiddleware(handlers.Concurrency(1), handlers.RateLimit(10, 1)))
	s.run(reg, ordering.Config{Workers: 1, UntilIdle: true})
	if len(calls) != 16 {
		t.Errorf("%d of 16 events ran", len(calls))
	}
	for id, n := range calls {
		if n != 1 {
			t.Errorf("%s ran %d times", id, n)
		}
	}
}
