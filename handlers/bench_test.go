package handlers_test

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/pgtest"
)

const (
	benchTransactions = 40 // of one side, before the other has its turn
	benchEvents       = 16 // of one transaction, as in a processor's turn
	debit             = `update accounts set cents = cents - $1 where id = $2`
)

// BenchmarkOn times a handler of On, with its decoding and middleware, against the
// same handler written by hand over pgx: the same statements in the same kind of
// transaction on one connection, the two in turns, the order of which changes from
// round to round. It reports medians of an event on each side, and what On costs
// over the other.
func BenchmarkOn(b *testing.B) {
	for name, middleware := range map[string][]handlers.Middleware{
		"bare": nil,
		"with middleware": {
			handlers.Recover(), handlers.Logging(nil), handlers.Metrics(func(context.Context, handlers.Observation) {}),
			handlers.Validate(func(*orderPaid) error { return nil }),
		},
	} {
		b.Run(name, func(b *testing.B) {
			conn := benchConnection(b)
			events := messages("Paid", slices.Repeat([]string{`{"Amount":1,"Currency":"EUR"}`}, benchEvents)...)
			reg := handlers.New()
			reg.Use(middleware...)
			handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[orderPaid]) error {
				_, err := tx.Exec(ctx, debit, e.Data.Amount, e.AggregateID)
				return err
			})
			entry := reg.Seal()["Paid"]
			sides := [2]*side{
				{event: func(ctx context.Context, tx pgx.Tx, m *handlers.Message) error {
					return entry.Handle(ctx, &handlers.Call{Events: []*handlers.Message{m}, Tx: tx})
				}},
				{event: func(ctx context.Context, tx pgx.Tx, m *handlers.Message) error {
					var data orderPaid
					if err := json.Unmarshal(m.Payload, &data); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, debit, data.Amount, m.AggregateID)
					return err
				}},
			}
			for _, s := range sides {
				s.block(b, conn, events) // statements are prepared, and pages read
			}
			sides[0].rounds, sides[1].rounds = nil, nil
			for i := 0; b.Loop(); i++ {
				sides[i%2].block(b, conn, events)
				sides[1-i%2].block(b, conn, events)
			}
			on, byHand := sides[0].median(), sides[1].median()
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(on.nanos, "ns/event")
			b.ReportMetric(byHand.nanos, "ns/event-by-hand")
			b.ReportMetric((on.nanos/byHand.nanos-1)*100, "%-over")
			b.ReportMetric(on.allocs-byHand.allocs, "allocs-over/event")
		})
	}
}

// benchConnection is a connection to a database with one account.
func benchConnection(b *testing.B) *pgx.Conn {
	b.Helper()
	conn, err := pgtest.Pool(b, pgtest.Database(b)).Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(conn.Release)
	if _, err := conn.Exec(b.Context(), `create table accounts (id text primary key, cents bigint not null);
		insert into accounts values ('order-7', 0)`); err != nil {
		b.Fatal(err)
	}
	return conn.Conn()
}

// side is one of two that are compared.
type side struct {
	event  func(ctx context.Context, tx pgx.Tx, m *handlers.Message) error
	rounds []cost
}

// cost is that of an event.
type cost struct{ nanos, allocs float64 }

// block runs some transactions and notes what an event cost.
func (s *side) block(b *testing.B, conn *pgx.Conn, events []*handlers.Message) {
	b.Helper()
	ctx := b.Context()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	for range benchTransactions {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, m := range events {
				if err := s.event(ctx, tx, m); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	const n = benchTransactions * benchEvents
	s.rounds = append(s.rounds, cost{float64(took.Nanoseconds()) / n, float64(after.Mallocs-before.Mallocs) / n})
}

// median is that of the rounds, of time and of allocations.
func (s *side) median() cost {
	nanos, allocs := make([]float64, len(s.rounds)), make([]float64, len(s.rounds))
	for i, r := range s.rounds {
		nanos[i], allocs[i] = r.nanos, r.allocs
	}
	slices.Sort(nanos)
	slices.Sort(allocs)
	return cost{nanos[len(nanos)/2], allocs[len(allocs)/2]}
}
