package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
	"github.com/inboxd/inboxd/ordering"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childVariable); url != "" {
		childMain(url)
		return
	}
	pgtest.Main(m)
}

// stage is a migrated database with a table of effects.
type stage struct {
	t     testing.TB
	url   string
	pool  *pgxpool.Pool
	store *inbox.Store
}

const effectsTable = `
create table effects (n bigint generated always as identity, aggregate_id text, event_id text, position bigint);
create table balances (account_id text primary key, amount bigint not null default 0)`

func setup(t testing.TB) *stage {
	t.Helper()
	url := pgtest.Database(t)
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	config.MaxConns = 24
	s := &stage{t: t, url: url, pool: pgtest.PoolConfig(t, config)}
	s.migrate()
	s.exec(effectsTable)
	s.store = inbox.NewStore(s.pool, "")
	return s
}

func (s *stage) migrate() {
	s.t.Helper()
	conn, err := pgx.Connect(context.Background(), s.url)
	must(s.t, err)
	defer conn.Close(context.Background())
	_, _, err = migrations.Up(context.Background(), conn, inbox.DefaultSchema)
	must(s.t, err)
}

func (s *stage) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.pool.Exec(context.Background(), sql, args...)
	must(s.t, err)
}

// one reads a single value.
func one[T any](s *stage, sql string, args ...any) T {
	s.t.Helper()
	var v T
	must(s.t, s.pool.QueryRow(context.Background(), sql, args...).Scan(&v))
	return v
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put stores n events of each of the aggregates, interleaved.
func (s *stage) put(eventType string, aggregates, n int) {
	s.t.Helper()
	var events []inbox.Event
	for i := range n {
		for a := range aggregates {
			events = append(events, inbox.Event{
				ID: fmt.Sprintf("%s-%d-%d", eventType, a, i), AggregateID: fmt.Sprintf("agg-%d", a),
				Type: eventType, Payload: fmt.Appendf(nil, `{"n":%d}`, i),
			})
		}
	}
	for len(events) > 0 {
		k := min(1000, len(events))
		_, err := s.store.Put(context.Background(), events[:k])
		must(s.t, err)
		events = events[k:]
	}
}

// appendEffect is a handler whose effect shows order and doubles.
const appendEffect = `insert into effects (aggregate_id, event_id, position) values (@aggregate_id, @event_id, @position)`

func sqlRegistry(t testing.TB, types ...string) *handlers.Registry {
	t.Helper()
	reg := handlers.New()
	for _, eventType := range types {
		must(t, handlers.SQL(reg, eventType, appendEffect))
	}
	return reg
}

func effect(ctx context.Context, tx pgx.Tx, m handlers.Message) error {
	_, err := tx.Exec(ctx, `insert into effects (aggregate_id, event_id, position) values ($1, $2, $3)`,
		m.AggregateID, m.ID, m.Position)
	return err
}

func quick() ordering.Config {
	return ordering.Config{
		Workers: 8, Sweep: 50 * time.Millisecond, UntilIdle: true,
		Breaker: ordering.Breaker{Probe: 10 * time.Millisecond, Max: 50 * time.Millisecond},
		Retry:   ordering.Retry{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond, Attempts: 4},
	}
}

// run runs a processor until nothing can run any more.
func (s *stage) run(reg *handlers.Registry, cfg ordering.Config) *ordering.Processor {
	s.t.Helper()
	p, err := ordering.New(s.pool, reg, cfg)
	must(s.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(s.t, p.Run(ctx))
	if ctx.Err() != nil {
		s.t.Fatalf("not idle after a minute: %+v", p.Stats())
	}
	return p
}

// start runs a processor beside the test until the test ends.
func (s *stage) start(reg *handlers.Registry, cfg ordering.Config) *ordering.Processor {
	s.t.Helper()
	p, err := ordering.New(s.pool, reg, cfg)
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			var cut *ordering.CutShortError
			if !errors.As(err, &cut) {
				s.t.Errorf("run: %v", err)
			}
		}
	})
	return p
}

// until waits for a condition in the database.
func (s *stage) until(sql string, args ...any) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if one[bool](s, sql, args...) {
			return
		}
		select {
		case <-deadline:
			s.t.Fatalf("never came true: %s", sql)
		case <-tick.C:
		}
	}
}

// inOrder fails the test unless each of n events had its effect once, in order
// within its aggregate.
func (s *stage) inOrder(n int) {
	s.t.Helper()
	if got := one[int](s, `select count(*) from effects`); got != n {
		s.t.Errorf("%d effects, want %d", got, n)
	}
	if got := one[int](s, `select count(*) from (select event_id from effects group by 1 having count(*) > 1) d`); got != 0 {
		s.t.Errorf("%d events took effect more than once", got)
	}
	if got := one[int](s, `select count(*) from (
		select position, lag(position) over (partition by aggregate_id order by n) as before from effects) o
		where position <> coalesce(before, 0) + 1`); got != 0 {
		s.t.Errorf("%d effects out of order", got)
	}
}
