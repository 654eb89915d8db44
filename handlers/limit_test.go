package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// comeBack runs an event until it is done, as a processor does with Later, and
// gives how often it was put off.
func comeBack(t *testing.T, entry *handlers.Entry, id string) (putOff int) {
	for {
		m := message("A", `{}`)
		m.ID = id
		err := entry.Handle(t.Context(), &handlers.Call{Events: []*handlers.Message{m}})
		var later *handlers.LaterError
		switch {
		case err == nil:
			return putOff
		case !errors.As(err, &later):
			t.Errorf("got %v", err)
			return putOff
		}
		putOff++
		time.Sleep(later.After)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		began := time.Now()
		reg := handlers.New()
		handlers.On(reg, "A", func(context.Context, pgx.Tx, handlers.Event[orderPaid]) error {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(began))
			return nil
		}, handlers.WithMiddleware(handlers.RateLimit(2, 3)))
		var all sync.WaitGroup
		var putOff atomic.Int64
		for i := range 203 {
			all.Go(func() { putOff.Add(int64(comeBack(t, reg.Seal()["A"], fmt.Sprint(i)))) })
		}
		all.Wait()
		// Three at once, then one each half second: nobody's place is lost.
		if len(at) != 203 || at[2] != 0 || at[202].Round(time.Millisecond) != 100*time.Second {
			t.Fatalf("%d ran, the last at %s", len(at), at[len(at)-1])
		}
		for i := range at[:200] {
			if at[i+3]-at[i] == 0 {
				t.Errorf("four at once at %s", at[i])
			}
		}
		// Those whose place is further off than a minute ask once more.
		if n := putOff.Load(); n < 200 || n > 400 {
			t.Errorf("put off %d times", n)
		}
	})
}

func TestRateLimitWaitsBriefly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := handlers.New()
		keep[orderPaid](reg, "A", handlers.WithMiddleware(handlers.RateLimit(20, 1)))
		entry := reg.Seal()["A"]
		began := time.Now()
		if comeBack(t, entry, "1")+comeBack(t, entry, "2") != 0 || time.Since(began) != 50*time.Millisecond {
			t.Errorf("after %s", time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := entry.Handle(ctx, &handlers.Call{Events: messages("A", `{}`)}); !errors.Is(err, context.Canceled) {
			t.Errorf("with its context ended it answers %v", err)
		}
	})
}

// An event whose turn is promised runs also if it comes back late, and one that
// comes back early keeps its place.
func TestRateLimitKeepsPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := handlers.New()
		keep[orderPaid](reg, "A", handlers.WithMiddleware(handlers.RateLimit(1, 1)))
		try := func(id string) time.Duration {
			m := message("A", `{}`)
			m.ID = id
			var later *handlers.LaterError
			if errors.As(reg.Seal()["A"].Handle(t.Context(), &handlers.Call{Events: []*handlers.Message{m}}), &later) {
				return later.After
			}
			return 0
		}
		try("1")
		if try("2") != time.Second || try("3") != 2*time.Second || try("3") != 2*time.Second || try("2") != time.Second {
			t.Error("places were not kept")
		}
		time.Sleep(10 * time.Second)
		if try("3") != 0 || try("2") != 0 {
			t.Error("promised turns were lost")
		}
		if try("3") != 0 || try("3") == 0 {
			t.Error("a place counts for more than one attempt")
		}
	})
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		shared := handlers.WithMiddleware(handlers.Concurrency(3))
		reg := handlers.New()
		handle := func(context.Context, pgx.Tx, handlers.Event[orderPaid]) error {
			n := running.Add(1)
			defer running.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Second)
			return nil
		}
		handlers.On(reg, "A", handle, shared)
		handlers.On(reg, "B", handle, shared)
		began := time.Now()
		var all sync.WaitGroup
		var putOff atomic.Int64
		for i := range 30 {
			all.Go(func() { putOff.Add(int64(comeBack(t, reg.Seal()[[]string{"A", "B"}[i%2]], fmt.Sprint(i)))) })
		}
		all.Wait()
		if most.Load() != 3 {
			t.Errorf("%d at once, want 3", most.Load())
		}
		// 30 calls of a second, three at a time, take 10 s.
		if took := time.Since(began); took > 40*time.Second || putOff.Load() > 30*40 {
			t.Errorf("took %s, put off %d times", took, putOff.Load())
		}
	})
}

func TestConcurrencyPassesQueuedHandlersAndContexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := handlers.New()
		reg.Use(handlers.Concurrency(1))
		if err := handlers.SQL(reg, "S", "select 1"); err != nil {
			t.Fatal(err)
		}
		block := make(chan struct{})
		handlers.On(reg, "A", func(context.Context, pgx.Tx, handlers.Event[orderPaid]) error { <-block; return nil })
		var all sync.WaitGroup
		all.Go(func() { comeBack(t, reg.Seal()["A"], "1") })
		synctest.Wait()
		if _, err := queued(t, reg, message("S", `{}`)); err != nil {
			t.Errorf("a queued handler answers %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := reg.Seal()["A"].Handle(ctx, &handlers.Call{Events: messages("A", `{}`)}); !errors.Is(err, context.Canceled) {
			t.Errorf("with its context ended it answers %v", err)
		}
		close(block)
		all.Wait()
	})
}

// A handler that panics leaves its place to others.
func TestConcurrencyAfterPanics(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	reg.Use(handlers.Recover(), handlers.Concurrency(1))
	handlers.On(reg, "A", func(context.Context, pgx.Tx, handlers.Event[orderPaid]) error { panic("oh no") })
	for range 3 {
		wantText(t, text(run(t, reg, message("A", `{}`))), "panic: oh no")
	}
}
