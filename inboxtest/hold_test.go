package inboxtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inboxtest"
)

// A backoff is no shorter for a test that takes long, and no longer after a retry.
func TestRunDueGoesByNoClock(t *testing.T) {
	t.Parallel()
	k := inboxtest.New(t, inboxtest.Options{})
	k.Add(inboxtest.Event("a", "Moved", moved{}), inboxtest.Event("b", "Moved", moved{}))
	attempts := map[string]int{}
	policy := handlers.WithRetry(handlers.Retry{Initial: 5 * time.Millisecond, Multiplier: 2, Jitter: -1})
	var mu sync.Mutex
	reg := handlers.New()
	handlers.On(reg, "Moved", func(_ context.Context, _ pgx.Tx, e handlers.Event[moved]) error {
		mu.Lock()
		attempts[e.AggregateID] = e.Attempt
		mu.Unlock()
		// The other lane's backoff is over while this one runs.
		time.Sleep(30 * time.Millisecond)
		return errors.New("no")
	}, policy)
	want := func(a, b int, waitA time.Duration) {
		t.Helper()
		k.RunDue(reg)
		if attempts["a"] != a || attempts["b"] != b || k.Wait("a") != waitA {
			t.Errorf("%v attempts, a waits %s; want %d, %d and %s", attempts, k.Wait("a"), a, b, waitA)
		}
	}
	want(1, 1, 5*time.Millisecond)
	want(1, 1, 5*time.Millisecond)
	k.Advance(4 * time.Millisecond)
	want(1, 1, time.Millisecond)
	k.Advance(time.Millisecond)
	want(2, 2, 10*time.Millisecond)
	if _, err := k.Admin().Apply(t.Context(), admin.Retry, admin.By{}, admin.Target{AggregateID: "a"}); err != nil {
		t.Fatal(err)
	}
	want(1, 2, 5*time.Millisecond)
	if got := k.Elapsed(); got != 5*time.Millisecond {
		t.Errorf("%s have passed", got)
	}
	k.Run(on(func(context.Context, pgx.Tx, handlers.Event[moved]) error { return handlers.Later(nil, time.Hour) }))
	if wait := k.Wait("a"); wait < 50*time.Minute { // what RunDue knew of it is of no more use
		t.Errorf("a waits %s", wait)
	}
	k.Exec(`update inboxd.lanes set next_attempt_at = clock_timestamp() - interval '1 s'`)
	if wait := k.Wait("a"); wait != 0 {
		t.Errorf("a waits %s, though it is due", wait)
	}
}

// A limit goes by the real clock, and Run waits for it.
func TestRunWaitsForLimits(t *testing.T) {
	t.Parallel()
	k := inboxtest.New(t, inboxtest.Options{})
	reg := on(func(context.Context, pgx.Tx, handlers.Event[moved]) error { return nil })
	reg.Use(handlers.RateLimit(5, 1))
	for range 4 {
		k.Add(inboxtest.Event("a", "Moved", moved{}))
	}
	k.Run(reg)
	k.AssertAllDone()
}
