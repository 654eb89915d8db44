package webhook_test

import (
	"context"
	"fmt"
	"sync"
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

// stage is a migrated database with a table of effects, for an sql handler.
type stage struct {
	t    testing.TB
	pool *pgxpool.Pool
}

func setup(t testing.TB) *stage {
	t.Helper()
	url := pgtest.Database(t)
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	config.MaxConns = 24
	s := &stage{t: t, pool: pgtest.PoolConfig(t, config)}
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	defer conn.Close(context.Background())
	_, _, err = migrations.Up(t.Context(), conn, inbox.DefaultSchema)
	must(t, err)
	s.exec(`create table effects (event_id text)`)
	return s
}

func (s *stage) exec(sql string) {
	s.t.Helper()
	_, err := s.pool.Exec(context.Background(), sql)
	must(s.t, err)
}

func one[T any](s *stage, sql string) T {
	s.t.Helper()
	var v T
	must(s.t, s.pool.QueryRow(context.Background(), sql).Scan(&v))
	return v
}

// put stores n events of each of the aggregates, a-0, a-1, …, interleaved.
func (s *stage) put(eventType string, aggregates, n int) {
	s.t.Helper()
	var events []inbox.Event
	for i := range n {
		for a := range aggregates {
			events = append(events, inbox.Event{
				ID: fmt.Sprintf("%s-%d-%d", eventType, a, i), AggregateID: fmt.Sprintf("%s-%d", eventType, a),
				Type: eventType, Payload: fmt.Appendf(nil, "%d", i),
			})
		}
	}
	_, err := inbox.NewStore(s.pool, "").Put(context.Background(), events)
	must(s.t, err)
}

func config() ordering.Config {
	return ordering.Config{
		Workers: 8, Sweep: 20 * time.Millisecond, UntilIdle: true,
		Breaker: ordering.Breaker{Lanes: -1, Probe: 10 * time.Millisecond, Max: 50 * time.Millisecond},
		Retry:   ordering.Retry{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond, Attempts: 4},
	}
}

// start runs a processor beside the test, and gives what waits for its end.
func (s *stage) start(reg *handlers.Registry, cfg ordering.Config) (p *ordering.Processor, stop func()) {
	s.t.Helper()
	p, err := ordering.New(s.pool, reg, cfg)
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("run: %v", err)
		}
	})
	s.t.Cleanup(stop)
	return p, stop
}

// run runs a processor until nothing can run any more.
func (s *stage) run(reg *handlers.Registry, cfg ordering.Config) *ordering.Processor {
	s.t.Helper()
	p, err := ordering.New(s.pool, reg, cfg)
	must(s.t, err)
	ctx := within(s.t)
	must(s.t, p.Run(ctx))
	must(s.t, ctx.Err())
	return p
}

func (s *stage) until(sql string) {
	s.t.Helper()
	ctx := within(s.t)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !one[bool](s, sql) {
		select {
		case <-ctx.Done():
			s.t.Fatalf("never came true: %s", sql)
		case <-tick.C:
		}
	}
}
