package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inboxtest"
	"github.com/inboxd/inboxd/ordering"
)

const paidTable = `create table paid (n bigint generated always as identity, event_id text, cents bigint)`

// What this package promises of old events, batches, single events and loggers
// holds with a processor and a database.
func TestWithProcessor(t *testing.T) {
	t.Parallel()
	log, lines := textLog(slog.LevelDebug)
	var mu sync.Mutex
	var calls []string
	note := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, fmt.Sprintf(format, args...))
	}
	const insert = `insert into paid (event_id, cents) select * from unnest($1::text[], $2::bigint[])`
	reg := handlers.New(handlers.WithRetry(handlers.Retry{Attempts: 2}))
	handlers.OnBatch(reg, "Paid", func(ctx context.Context, tx pgx.Tx, events []handlers.Event[orderPaid]) error {
		ids, cents := make([]string, len(events)), make([]int64, len(events))
		for i, e := range events {
			if e.Data.Amount < 0 {
				note("batch refuses %s", e.ID)
				return errors.New("one of them is negative")
			}
			ids[i], cents[i] = e.ID, e.Data.Amount
		}
		note("batch of %d", len(events))
		_, err := tx.Exec(ctx, insert, ids, cents)
		return err
	}, handlers.Single(func(ctx context.Context, tx pgx.Tx, e handlers.Event[orderPaid]) error {
		note("single %s", e.ID)
		if e.Data.Amount < 0 {
			handlers.Logger(ctx).Info("refused")
			return fmt.Errorf("%d is negative", e.Data.Amount)
		}
		_, err := tx.Exec(ctx, insert, []string{e.ID}, []int64{e.Data.Amount})
		return err
	}))
	handlers.Alias(reg, "PaidV2", "Paid", handlers.Upcast(v2to3))
	k := inboxtest.New(t, inboxtest.Options{Setup: paidTable, Config: ordering.Config{Log: log}})
	k.Add(
		inboxtest.Event("a", "Paid", `{"Amount":1}`), inboxtest.Event("a", "PaidV2", `{"Cents":2}`), inboxtest.Event("a", "Paid", `{"Amount":3}`),
		inboxtest.Event("b", "PaidV2", `{"Cents":4}`), inboxtest.Event("b", "Paid", `{"Amount":-5}`), inboxtest.Event("b", "Paid", `{"Amount":6}`),
	)
	k.Run(reg)
	k.AssertProcessed("a", "e1", "e2", "e3")
	k.AssertStuck("b", "e5", "-5 is negative")
	if got := inboxtest.Get[string](k, `select string_agg(event_id || '=' || cents, ' ' order by event_id) from paid`); got != "e1=1 e2=2 e3=3 e4=4" {
		t.Errorf("effects %s", got)
	}
	said := strings.Join(calls, ", ")
	for want, least := range map[string]int{"batch of 3": 1, "batch refuses e5": 1, "single e4": 1, "single e5": 2} {
		if strings.Count(said, want) < least {
			t.Errorf("%q did not happen %d times: %s", want, least, said)
		}
	}
	if want := "msg=refused event_id=e5 aggregate_id=b event_type=Paid position=2 attempt=2"; !strings.Contains(lines.String(), want) {
		t.Errorf("%q was not logged:\n%s", want, lines)
	}
}

// Events that a limit puts off run in the end, in order, and no attempt is used up.
func TestLimitsWithProcessor(t *testing.T) {
	t.Parallel()
	reg := handlers.New(handlers.WithRetry(handlers.Retry{Never: true}))
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[orderPaid]) error {
		_, err := tx.Exec(ctx, `insert into paid (event_id) values ($1)`, e.ID)
		return err
	}, handlers.WithMiddleware(handlers.RateLimit(8, 1), handlers.Concurrency(1)))
	k := inboxtest.New(t, inboxtest.Options{Setup: paidTable})
	for _, aggregate := range []string{"a", "b", "c"} {
		k.Add(inboxtest.Event(aggregate, "Paid", `{}`), inboxtest.Event(aggregate, "Paid", `{}`))
	}
	deadline := time.Now().Add(time.Minute)
	for len(k.Waiting()) > 0 && time.Now().Before(deadline) {
		k.RunDue(reg)
	}
	k.AssertAllDone()
	if n := inboxtest.Get[int](k, `select max(attempts) from inboxd.events`); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if n := inboxtest.Get[int](k, `select count(*) from paid`); n != 6 {
		t.Errorf("%d effects", n)
	}
}
