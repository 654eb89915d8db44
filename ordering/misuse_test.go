package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

// Handlers that misbehave: each has a defined outcome, and the events after it
// and the other lanes see nothing of it.
func TestMisbehavingHandlers(t *testing.T) {
	type handler = func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error
	tests := []struct {
		name     string
		handle   handler
		timeout  time.Duration
		want     string // the error of the stuck lane; empty: the event succeeds
		attempts int    // of the event, when it is stuck; 0: all four
	}{
		{name: "swallows a failed statement", handle: func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_, _ = tx.Exec(ctx, `select 1/0`)
			return nil
		}, want: "a statement failed and the handler returned nil"},
		{name: "commits by method", handle: func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_ = tx.Commit(ctx)
			return nil
		}, want: "can neither commit nor roll back"},
		{name: "rolls back by method", handle: func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_ = tx.Rollback(ctx)
			return nil
		}, want: "can neither commit nor roll back"},
		{name: "commits by statement", handle: func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_, _ = tx.Exec(ctx, `commit`)
			return nil
		}, want: "ended the lane's transaction", attempts: 1},
		{name: "commits and begins anew", handle: func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_, _ = tx.Exec(ctx, `commit`)
			_, _ = tx.Exec(ctx, `begin`)
			return nil
		}, want: "ended the lane's transaction"},
		{name: "sets session state", handle: func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			for _, sql := range []string{`set search_path to nowhere`, `set default_transaction_read_only to on`,
				`select pg_advisory_lock(4711)`, `create temp table left_behind (n int)`} {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "panics", handle: func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
			panic("oh no")
		}, want: "panic: oh no"},
		{name: "calls Goexit", handle: func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
			runtime.Goexit()
			return nil
		}, want: "runtime.Goexit"},
		{name: "wraps a cancelled context of its own", handle: func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
			return fmt.Errorf("call the bank: %w", context.Canceled)
		}, want: "call the bank: context canceled"},
		{name: "exceeds the time-out in a statement", timeout: 300 * time.Millisecond,
			handle: func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
				_, err := tx.Exec(ctx, `select pg_sleep(60)`)
				return err
			}, want: "time"},
		{name: "exceeds the time-out and returns nil", timeout: 50 * time.Millisecond,
			handle: func(ctx context.Context, _ pgx.Tx, _ handlers.Event[[]byte]) error {
				<-ctx.Done()
				return nil
			}, want: "took longer than 50ms"},
		{name: "is permanent", handle: func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
			return fmt.Errorf("refused: %w", handlers.Permanent(errors.New("no such account")))
		}, want: "refused: no such account", attempts: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.put("Paid", 4, 6)
			reg := handlers.New()
			handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
				if err := effect(ctx, tx, e.Message); err != nil {
					return err
				}
				if e.ID == "Paid-1-2" {
					return test.handle(ctx, tx, e)
				}
				if e.Position > 2 {
					if _, err := tx.Exec(ctx, `create temp table left_behind (n int) on commit drop; drop table left_behind`); err != nil {
						return err
					}
				}
				return nil
			})
			cfg := quick()
			if test.timeout > 0 {
				cfg.HandlerTimeout = test.timeout
			}
			s.run(reg, cfg)
			s.nothingLocked()
			s.sessionsClean()
			if test.want == "" {
				s.inOrder(24)
				return
			}
			got := one[string](s, `select error_message from inboxd.lanes where state = 'stuck'`)
			if !strings.Contains(got, test.want) {
				t.Errorf("stuck with %q, want %q", got, test.want)
			}
			attempts := test.attempts
			if attempts == 0 {
				attempts = 4
			}
			if n := one[int](s, `select attempts from inboxd.events where event_id = 'Paid-1-2'`); n != attempts {
				t.Errorf("%d attempts, want %d", n, attempts)
			}
			if n := one[int](s, `select count(*) from inboxd.events where processed_at is not null`); n != 20 {
				t.Errorf("%d events processed, want 20", n)
			}
			if !strings.HasPrefix(test.name, "commits") {
				s.inOrder(20)
			}
		})
	}
}

// sessionsClean fails the test if a session of the pool shows traces of a
// handler.
func (s *stage) sessionsClean() {
	s.t.Helper()
	ctx := context.Background()
	for _, conn := range s.pool.AcquireAllIdle(ctx) {
		var traces string
		must(s.t, conn.QueryRow(ctx, `select concat_ws(', ',
			(select string_agg(name || '=' || setting, ', ') from pg_settings where source = 'session'),
			(select string_agg('lock ' || objid, ', ') from pg_locks where pid = pg_backend_pid() and locktype = 'advisory'),
			(select string_agg('table ' || relname, ', ') from pg_class where relpersistence = 't' and relkind = 'r' and relnamespace = pg_my_temp_schema()))`).Scan(&traces))
		if traces != "" {
			s.t.Errorf("a session still shows %s", traces)
		}
		conn.Release()
	}
}

// nothingLocked fails the test if a session of the pool still holds a lock or a
// transaction.
func (s *stage) nothingLocked() {
	s.t.Helper()
	s.until(`select not exists (select from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid() and state <> 'idle' and backend_type = 'client backend')`)
	s.until(`select not exists (select from pg_locks l join pg_stat_activity a using (pid)
		where a.datname = current_database() and l.pid <> pg_backend_pid() and l.locktype in ('advisory', 'transactionid', 'tuple'))`)
}

func TestHandlerThatNeverReturns(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, 3)
	release := make(chan struct{})
	returned := make(chan struct{})
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		if e.ID == "Paid-1-1" && e.Attempt == 1 {
			defer close(returned)
			<-release
			return nil
		}
		return effect(ctx, tx, e.Message)
	})
	cfg := quick()
	cfg.Workers = 1
	cfg.HandlerTimeout = 100 * time.Millisecond
	s.run(reg, cfg)
	s.inOrder(9)
	close(release)
	<-returned
	if n := one[int](s, `select attempts from inboxd.events where event_id = 'Paid-1-1'`); n != 2 {
		t.Errorf("%d attempts, want 2", n)
	}
	s.nothingLocked()
}

func TestTransactionOutlivesItsHandler(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 2)
	var kept pgx.Tx
	var late error
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		if kept != nil {
			_, late = kept.Exec(ctx, `insert into effects (event_id) values ('late')`)
		}
		kept = tx
		return effect(ctx, tx, e.Message)
	})
	s.run(reg, quick())
	s.inOrder(2)
	if !errors.Is(late, ordering.ErrReturned) {
		t.Errorf("the kept transaction answers %v, want ErrReturned", late)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, 3)
	s.putNamed("Transfer", "bank", 1)
	var mu sync.Mutex
	tries := map[string]int{}
	reg := handlers.New()
	handle := func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		mu.Lock()
		tries[e.ID]++
		n := tries[e.ID]
		mu.Unlock()
		switch {
		case e.ID == "Paid-0-1":
			return handlers.Skip(errors.New("not for us"))
		case e.ID == "bank-0" && n < 4:
			return handlers.Pause(errors.New("the bank is closed"))
		case e.ID == "Paid-2-1" && n == 1:
			return handlers.RetryAfter(errors.New("busy"), 10*time.Millisecond)
		}
		return effect(ctx, tx, e.Message)
	}
	handlers.On(reg, "Paid", handle)
	handlers.On(reg, "Transfer", handle)
	s.run(reg, quick())
	if n := one[int](s, `select count(*) from effects`); n != 9 {
		t.Errorf("%d effects, want 9", n)
	}
	if !one[bool](s, `select skipped_at is not null and processed_at = skipped_at from inboxd.events where event_id = 'Paid-0-1'`) {
		t.Error("the skipped event does not say so")
	}
	if got := one[string](s, `select action || ' ' || event_id || ' ' || reason from inboxd.audit where action = 'skip'`); got != "skip Paid-0-1 not for us" {
		t.Errorf("audit says %q", got)
	}
	if n := one[int](s, `select attempts from inboxd.events where event_id = 'bank-0'`); n != 1 {
		t.Errorf("pausing used up attempts: %d, want 1", n)
	}
	if n := one[int](s, `select attempts from inboxd.events where event_id = 'Paid-2-1'`); n != 2 {
		t.Errorf("retry after: %d attempts, want 2", n)
	}
}
