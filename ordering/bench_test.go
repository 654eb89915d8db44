package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

// The textbook loop: a lock, the oldest row, the handler, the flag, the commit;
// a round trip each. It is what the engine is measured against.
const (
	textbookTable = `
create table textbook (id bigint generated always as identity primary key, aggregate_id text not null, event_id text unique, processed_at timestamptz);
create index on textbook (aggregate_id, id) where processed_at is null`
	textbookLock = `select pg_advisory_xact_lock(hashtextextended($1, 0))`
	textbookNext = `select id, event_id from textbook where aggregate_id = $1 and processed_at is null order by id limit 1`
	textbookDone = `update textbook set processed_at = now() where id = $1`
	debit        = `update balances set amount = amount - 1 where account_id = $1`
)

func (s *stage) textbook(aggregates, perLane, workers int) time.Duration {
	s.t.Helper()
	s.exec(`insert into textbook (aggregate_id, event_id)
		select 'agg-' || a, 'e-' || a || '-' || n from generate_series(1, $2::int) n, generate_series(0, $1::int - 1) a`, aggregates, perLane)
	s.exec(`analyze textbook`)
	lanes := make(chan string, aggregates)
	for a := range aggregates {
		lanes <- fmt.Sprintf("agg-%d", a)
	}
	started := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				select {
				case name := <-lanes:
					if s.textbookStep(name) {
						lanes <- name
					}
				default:
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(started)
	if n := one[int](s, `select count(*) from textbook where processed_at is null`); n != 0 {
		s.t.Fatalf("the textbook loop left %d events", n)
	}
	s.exec(`truncate textbook`)
	return took
}

func (s *stage) textbookStep(name string) (more bool) {
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, textbookLock, name); err != nil {
			return err
		}
		var id int64
		var eventID string
		if err := tx.QueryRow(ctx, textbookNext, name).Scan(&id, &eventID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, debit, name); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, textbookDone, id)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false
	}
	must(s.t, err)
	return true
}

func debitRegistry(t testing.TB, form string) *handlers.Registry {
	reg := handlers.New()
	switch form {
	case "on":
		handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
			_, err := tx.Exec(ctx, debit, e.AggregateID)
			return err
		})
	case "sql":
		must(t, handlers.SQL(reg, "Paid", `update balances set amount = amount - 1 where account_id = @aggregate_id`))
	case "batch":
		handlers.OnBatch(reg, "Paid", func(ctx context.Context, tx pgx.Tx, events []handlers.Event[[]byte]) error {
			_, err := tx.Exec(ctx, `update balances set amount = amount - $2 where account_id = $1`, events[0].AggregateID, len(events))
			return err
		})
	}
	return reg
}

// BenchmarkAgainstTextbook reports how many times the rate of the textbook loop
// each form of handler reaches, on many lanes and on one.
func BenchmarkAgainstTextbook(b *testing.B) {
	for _, shape := range []struct {
		name                string
		aggregates, perLane int
		batch               int
	}{{"many", 1000, 20, 16}, {"one", 1, 4000, 100}} {
		for _, form := range []string{"on", "sql", "batch"} {
			b.Run(shape.name+"/"+form, func(b *testing.B) {
				for range b.N {
					s := setup(b)
					s.exec(textbookTable)
					s.exec(`insert into balances select 'agg-' || a from generate_series(0, $1::int - 1) a`, shape.aggregates)
					book := s.textbook(shape.aggregates, shape.perLane, 16)
					s.put("Paid", shape.aggregates, shape.perLane)
					s.exec(`vacuum analyze`)
					events := shape.aggregates * shape.perLane
					p, took := s.timed(debitRegistry(b, form), ordering.Config{Batch: shape.batch}, events)
					if n := one[int](s, `select -sum(amount) from balances`); n != 2*events {
						b.Fatalf("%d effects, want %d", n, 2*events)
					}
					b.ReportMetric(float64(events)/book.Seconds(), "textbook/s")
					b.ReportMetric(float64(events)/took.Seconds(), "events/s")
					b.ReportMetric(book.Seconds()/took.Seconds(), "ratio")
					b.ReportMetric(float64(p.Stats().Turns), "turns")
				}
			})
		}
	}
}

// timed runs until n events are processed.
func (s *stage) timed(reg *handlers.Registry, cfg ordering.Config, n int) (*ordering.Processor, time.Duration) {
	s.t.Helper()
	p, err := ordering.New(s.pool, reg, cfg)
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	started := time.Now()
	go func() { done <- p.Run(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for p.Stats().Processed < int64(n) {
		<-tick.C
	}
	took := time.Since(started)
	cancel()
	must(s.t, <-done)
	return p, took
}
