package ordering_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

func TestPolicyOfAType(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.putNamed("Never", "a", 1)
	s.putNamed("Twice", "b", 1)
	s.putNamed("Plain", "c", 1)
	s.putNamed("TwiceV1", "d", 1)
	fails := func(context.Context, pgx.Tx, handlers.Event[[]byte]) error { return errors.New("no") }
	reg := handlers.New()
	handlers.On(reg, "Never", fails, handlers.WithRetry(handlers.Retry{Never: true}))
	handlers.On(reg, "Twice", fails, handlers.WithRetry(handlers.Retry{Attempts: 7}))
	handlers.On(reg, "Plain", fails)
	handlers.Alias(reg, "TwiceV1", "Twice")
	cfg := quick()
	cfg.Policies = map[string]handlers.Retry{"Twice": {Attempts: 2}}
	cfg.Version = "v1.2.3"
	s.run(reg, cfg)
	for aggregate, want := range map[string]int{"a": 1, "b": 2, "c": 4, "d": 2} {
		if got := one[int](s, `select attempts from inboxd.lanes where state = 'stuck' and aggregate_id = $1`, aggregate); got != want {
			t.Errorf("%s is stuck after %d attempts, want %d", aggregate, got, want)
		}
	}
	if got := one[[]string](s, `select array_agg(distinct detail->>'version') from inboxd.failures`); !slices.Equal(got, []string{"v1.2.3"}) {
		t.Errorf("the failures name the versions %q, want v1.2.3", got)
	}
}

func TestMistakesInConfig(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for want, cfg := range map[string]ordering.Config{
		`there is a policy for event type "Payd", but no handler`: {Policies: map[string]handlers.Retry{"Payd": {Attempts: 1}}},
		`the policy of event type Paid.Multiplier is 0.5`:         {Policies: map[string]handlers.Retry{"Paid": {Multiplier: 0.5}}},
		`Retry.Permanent holds "unique"`:                          {Retry: ordering.Retry{Permanent: []string{"unique"}}},
		`Hooks holds a int, which implements none`:                {Hooks: []any{1}},
		`Breaker.Max is 1s, but must be at least 2s`:              {Breaker: ordering.Breaker{Probe: 2 * time.Second, Max: time.Second}},
	} {
		if _, err := ordering.New(s.pool, sqlRegistry(t, "Paid"), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New answers %v, want %s", err, want)
		}
	}
}

// Types with an isolation level of their own have it, next to others in one lane,
// and what they run into costs no attempt.
func TestIsolationOfAType(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`create table seen (event_type text, level text); create table counters (n int); insert into counters values (0)`)
	for range 3 {
		for _, eventType := range []string{"Plain", "Strict", "Repeatable"} {
			s.put(eventType+"-"+one[string](s, `select count(*)::text from inboxd.inbox`), 4, 1)
		}
	}
	reg := handlers.New()
	for _, eventType := range one[[]string](s, `select array_agg(distinct event_type) from inboxd.inbox`) {
		look := func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
			_, err := tx.Exec(ctx, `insert into seen select $1, current_setting('transaction_isolation')`, strings.SplitN(eventType, "-", 2)[0])
			if err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `update counters set n = n + 1`); err != nil {
				return err
			}
			return effect(ctx, tx, e.Message)
		}
		var opts []handlers.Option
		switch eventType[0] {
		case 'S':
			opts = append(opts, handlers.WithIsolation(pgx.Serializable))
		case 'R':
			opts = append(opts, handlers.WithIsolation(pgx.RepeatableRead))
		}
		handlers.On(reg, eventType, look, opts...)
	}
	s.run(reg, quick())
	s.inOrder(36)
	if got := one[int](s, `select n from counters`); got != 36 {
		t.Errorf("the counter is at %d, want 36", got)
	}
	got := one[[]string](s, `select array_agg(distinct event_type || ' ' || level order by event_type || ' ' || level) from seen`)
	if want := []string{"Plain read committed", "Repeatable repeatable read", "Strict serializable"}; !slices.Equal(got, want) {
		t.Errorf("ran in %q, want %q", got, want)
	}
	if n := one[int](s, `select count(*) from inboxd.failures where not crash`); n != 0 {
		t.Errorf("%d attempts were lost to serialization failures", n)
	}
	s.sound()
}

// A handler that wants to run later uses up no attempt, and neither do its
// neighbours; a batch handler as well.
func TestLater(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("One", 3, 3)
	s.put("Several", 3, 3)
	var calls atomic.Int64
	reg := handlers.New()
	handlers.On(reg, "One", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		if calls.Add(1)%2 == 1 {
			return handlers.Later(nil, time.Millisecond)
		}
		return effect(ctx, tx, e.Message)
	})
	handlers.OnBatch(reg, "Several", func(ctx context.Context, tx pgx.Tx, events []handlers.Event[[]byte]) error {
		if calls.Add(1)%2 == 1 {
			return handlers.Later(errors.New("too many at once"), time.Millisecond)
		}
		for _, e := range events {
			if err := effect(ctx, tx, e.Message); err != nil {
				return err
			}
		}
		return nil
	})
	s.run(reg, quick())
	s.inOrder(18)
	if n := one[int](s, `select max(attempts) from inboxd.events`); n != 1 {
		t.Errorf("an event has %d attempts, want 1", n)
	}
	s.sound()
}

// A type's own time-out holds within a statement, and the attempt counts; one
// that is longer than the processor's gives the handler the time.
func TestTimeoutOfAType(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.putNamed("Short", "a", 1)
	s.putNamed("Long", "b", 1)
	reg := handlers.New()
	sleeps := func(seconds float64) func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
		return func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
			if _, err := tx.Exec(ctx, `select pg_sleep($1)`, seconds); err != nil {
				return err
			}
			return effect(ctx, tx, e.Message)
		}
	}
	handlers.On(reg, "Short", sleeps(30), handlers.WithTimeout(20*time.Millisecond))
	handlers.On(reg, "Long", sleeps(0.6), handlers.WithTimeout(time.Minute))
	cfg := quick()
	cfg.HandlerTimeout = 300 * time.Millisecond
	s.run(reg, cfg)
	if got := one[string](s, `select attempts || ' ' || error_message from inboxd.lanes where aggregate_id = 'a' and state = 'stuck'`); !strings.HasPrefix(got, "4 the handler took longer than 20ms") {
		t.Errorf("the short one: %q, want 4 attempts and its time-out", got)
	}
	if n := one[int](s, `select count(*) from effects where aggregate_id = 'b'`); n != 1 {
		t.Errorf("the long one had %d effects, want 1: %s", n, one[string](s, `select coalesce(error_message, '') from inboxd.lanes where aggregate_id = 'b'`))
	}
}

// The time-out of a middleware that ends a statement is an attempt, no outage,
// although the driver closes the connection.
func TestTimeoutOfAMiddleware(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.putNamed("Short", "a", 1)
	reg := handlers.New()
	reg.Use(handlers.Timeout(20 * time.Millisecond))
	handlers.On(reg, "Short", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		_, err := tx.Exec(ctx, `select pg_sleep(30)`)
		return err
	})
	s.run(reg, quick())
	if got := one[int](s, `select attempts from inboxd.lanes where state = 'stuck'`); got != 4 {
		t.Errorf("stuck after %d attempts, want 4", got)
	}
}

// listener hears everything.
type listener struct {
	mu                     sync.Mutex
	started, succeeded     int
	failed, stuck, skipped []string
	swept                  int
}

func (l *listener) hear(f func()) { l.mu.Lock(); defer l.mu.Unlock(); f() }

func (l *listener) Started(r ordering.Run) { l.hear(func() { l.started += len(r.Events) }) }
func (l *listener) Succeeded(r ordering.Run) {
	l.hear(func() { l.succeeded += len(r.Events) })
	panic("a hook's own fault")
}
func (l *listener) Failed(f ordering.Failure) {
	l.hear(func() { l.failed = append(l.failed, f.Message.ID) })
}
func (l *listener) Stuck(f ordering.Failure) {
	l.hear(func() { l.stuck = append(l.stuck, f.Message.ID) })
}
func (l *listener) Skipped(f ordering.Failure) {
	l.hear(func() { l.skipped = append(l.skipped, f.Message.ID) })
}
func (l *listener) Swept(lanes int) { l.hear(func() { l.swept += lanes }) }

func TestHooks(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.putNamed("Paid", "a", 5)
	s.putNamed("Paid", "b", 5)
	s.putNamed("Paid", "c", 5)
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		switch {
		case e.ID == "a-1" && e.Attempt < 3:
			return errors.New("not yet")
		case e.ID == "b-2":
			return handlers.Permanent(errors.New("never"))
		case e.ID == "c-3":
			return handlers.Skip(errors.New("not for us"))
		}
		return effect(ctx, tx, e.Message)
	})
	heard := &listener{}
	cfg := quick()
	cfg.Hooks = []any{heard}
	s.run(reg, cfg)
	if heard.succeeded != 11 || heard.started < 11 {
		t.Errorf("heard of %d starts and %d successes, want 11", heard.started, heard.succeeded)
	}
	if !slices.Equal(heard.failed, []string{"a-1", "a-1"}) || !slices.Equal(heard.stuck, []string{"b-2"}) || !slices.Equal(heard.skipped, []string{"c-3"}) {
		t.Errorf("heard of failed %q, stuck %q, skipped %q", heard.failed, heard.stuck, heard.skipped)
	}
	if heard.swept < 3 {
		t.Errorf("heard of %d lanes swept, want 3: nothing had told of them", heard.swept)
	}
}
