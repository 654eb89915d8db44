package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/ordering"
)

// rehearsal is a database with one event of type T of agg-0, and one of type U
// behind it.
func rehearsal(t *testing.T) *stage {
	t.Helper()
	s := setup(t)
	s.put("T", 1, 1)
	s.put("U", 1, 1)
	return s
}

// dryRun runs agg-0's head dry, and fails the test if anything changed.
func (s *stage) dryRun(reg *handlers.Registry, cfg ordering.Config) (*ordering.DryRunReport, error) {
	s.t.Helper()
	const all = `select (select jsonb_agg(l order by l.lane_id) from inboxd.lanes l)::text
		|| (select count(*) from effects) || (select count(*) from balances)
		|| (select count(*) from inboxd.runs) || (select count(*) from inboxd.failures) || (select count(*) from inboxd.inbox)
		|| (select coalesce(jsonb_agg(a order by a.lane_id)::text, '') from inboxd.aggregates a)`
	before := one[string](s, all)
	p, err := ordering.New(s.pool, reg, cfg)
	must(s.t, err)
	report, err := p.DryRun(s.t.Context(), "agg-0")
	if after := one[string](s, all); after != before {
		s.t.Errorf("a dry run changed\n%s\nto\n%s", before, after)
	}
	if report != nil && !strings.Contains(fmt.Sprint(report.Err), "did not return") {
		if n := one[int](s, `select count(*) from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`); n > 0 {
			s.t.Errorf("%d transactions are left", n)
		}
	}
	return report, err
}

// Each outcome of a handler, and each way to misuse the transaction.
func TestDryRunOutcomes(t *testing.T) {
	t.Parallel()
	write := func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		return effect(ctx, tx, e.Message)
	}
	type handler = func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error
	for name, tc := range map[string]struct {
		handle  handler
		outcome ordering.DryRunOutcome
		want    string // in the error
	}{
		"passes": {write, ordering.DryRunProcessed, ""},
		"fails":  {func(context.Context, pgx.Tx, handlers.Event[[]byte]) error { return errors.New("no account") }, ordering.DryRunFailed, "no account"},
		"is permanent": {func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
			return handlers.Permanent(errors.New("no account"))
		}, ordering.DryRunStuck, "no account"},
		"skips":  {func(context.Context, pgx.Tx, handlers.Event[[]byte]) error { return handlers.Skip(errors.New("old")) }, ordering.DryRunSkipped, "old"},
		"pauses": {func(context.Context, pgx.Tx, handlers.Event[[]byte]) error { return handlers.Pause(errors.New("down")) }, ordering.DryRunPaused, "down"},
		"is late": {func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
			return handlers.Later(errors.New("full"), time.Minute)
		}, ordering.DryRunLater, "full"},
		"panics": {func(context.Context, pgx.Tx, handlers.Event[[]byte]) error { panic("boo") }, ordering.DryRunFailed, "panic: boo"},
		"exits":  {func(context.Context, pgx.Tx, handlers.Event[[]byte]) error { runtime.Goexit(); return nil }, ordering.DryRunFailed, "ended its goroutine"},
		"deadlocks": {func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_, err := tx.Exec(ctx, `do $$ begin raise exception 'x' using errcode = '40P01'; end $$`)
			return err
		}, ordering.DryRunConflict, "40P01"},
		"swallows": {func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_, _ = tx.Exec(ctx, `select 1/0`)
			return nil
		}, ordering.DryRunFailed, "a statement failed and the handler returned nil"},
		"commits by method": {func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error { _ = tx.Commit(ctx); return nil }, ordering.DryRunFailed, "can neither commit"},
		"commits": {func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
			if err := write(ctx, tx, e); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `commit`)
			return err
		}, ordering.DryRunFailed, "ended the lane's transaction"},
		"commits behind its back": {func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
			if err := write(ctx, tx, e); err != nil {
				return err
			}
			_, _ = tx.Conn().Exec(ctx, `commit`)
			return nil
		}, ordering.DryRunStuck, "ended the lane's transaction"},
		"begins anew": {func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
			for _, sql := range []string{`rollback`, `begin`, `insert into effects (event_id) values ('anew')`, `commit`} {
				_, _ = tx.Exec(ctx, sql)
			}
			return nil
		}, ordering.DryRunStuck, "ended the lane's transaction"},
		"ends it and begins anew": {func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_, _ = tx.Exec(ctx, `rollback`)
			_, err := tx.Exec(ctx, `begin`)
			return err
		}, ordering.DryRunFailed, "ended the lane's transaction"},
		"is checked at the commit": {func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_, err := tx.Exec(ctx, `insert into late values (1), (1)`)
			return err
		}, ordering.DryRunFailed, "late_n_key"},
		"takes too long": {func(ctx context.Context, _ pgx.Tx, _ handlers.Event[[]byte]) error { <-ctx.Done(); return nil }, ordering.DryRunFailed, "the handler took longer than"},
		"stores an event": {func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
			_, err := inbox.NewStore(nil, "").Add(ctx, tx, inbox.Event{ID: "new", AggregateID: "agg-0", Type: "T"})
			return err
		}, ordering.DryRunProcessed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rehearsal(t)
			s.exec(`create table late (n int unique deferrable initially deferred)`)
			reg := handlers.New()
			handlers.On(reg, "T", tc.handle)
			cfg := ordering.Config{}
			if name == "takes too long" {
				cfg.HandlerTimeout = 50 * time.Millisecond
			}
			report, err := s.dryRun(reg, cfg)
			must(t, err)
			if report.Outcome != tc.outcome || (report.Err != nil) != (tc.want != "") || report.Err != nil && !strings.Contains(report.Err.Error(), tc.want) {
				t.Errorf("%s: %v, want %s: %s", report.Outcome, report.Err, tc.outcome, tc.want)
			}
			if (report.Fingerprint != "") != (report.Err != nil) || report.Event.ID != "T-0-0" || report.Event.Attempt != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// Every form of handler shows its statements.
func TestDryRunShowsStatements(t *testing.T) {
	t.Parallel()
	queue := func(b *pgx.Batch) {
		b.Queue(`insert into balances values ('a'), ('b')`)
		b.Queue(`select * from balances`).Query(func(rows pgx.Rows) error { rows.Close(); return rows.Err() })
		b.Queue(`update balances set amount = 1 where account_id = $1`, "a")
	}
	for name, register := range map[string]func(reg *handlers.Registry){
		"On": func(reg *handlers.Registry) {
			handlers.On(reg, "T", func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
				if _, err := tx.Exec(ctx, `insert into balances values ('a'), ('b')`); err != nil {
					return err
				}
				rows, err := tx.Query(ctx, `select * from balances`)
				if err != nil {
					return err
				}
				rows.Close()
				_, err = tx.Exec(ctx, `update balances set amount = 1 where account_id = $1`, "a")
				return err
			})
		},
		"OnBatch": func(reg *handlers.Registry) {
			handlers.OnBatch(reg, "T", func(ctx context.Context, tx pgx.Tx, events []handlers.Event[[]byte]) error {
				if len(events) != 1 {
					return fmt.Errorf("%d events", len(events))
				}
				var b pgx.Batch
				queue(&b)
				return tx.SendBatch(ctx, &b).Close()
			})
		},
		"OnQueue": func(reg *handlers.Registry) {
			handlers.OnQueue(reg, "T", func(_ context.Context, b *pgx.Batch, _ handlers.Event[[]byte]) error { queue(b); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rehearsal(t)
			reg := handlers.New()
			register(reg)
			report, err := s.dryRun(reg, ordering.Config{})
			must(t, err)
			var got []string
			for _, st := range report.Statements {
				verb, _, _ := strings.Cut(st.SQL, " ")
				got = append(got, fmt.Sprint(verb, " ", st.Rows, " ", st.Took != nil, " ", st.Err != nil))
			}
			timed := name != "OnBatch"
			want := fmt.Sprintf("[insert 2 %[1]v false select 2 %[1]v false update 1 %[1]v false]", timed)
			if fmt.Sprint(got) != want || report.Outcome != ordering.DryRunProcessed || report.Took <= 0 {
				t.Errorf("%s: %v, want %s (%v)", report.Outcome, got, want, report.Err)
			}
		})
	}
}

// A queued handler's statements are prepared before the first runs, as in a turn.
func TestDryRunOfQueuedHandlersThatFail(t *testing.T) {
	t.Parallel()
	for want, statements := range map[string][]string{
		"23505":                   {`insert into balances values ('a')`, `insert into balances values ('a')`, `select 1`},
		"42P01":                   {`create table made (n int)`, `insert into made values (1)`},
		"ended the lane's transa": {`insert into effects (event_id) values ('x')`, `commit`, `insert into effects (event_id) values ('y')`},
		"in a turn, what it comm": {`rollback`, `insert into effects (event_id) values ('x')`},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			s := rehearsal(t)
			reg := handlers.New()
			must(t, handlers.SQL(reg, "T", statements...))
			report, err := s.dryRun(reg, ordering.Config{})
			must(t, err)
			if report.Outcome != ordering.DryRunFailed || !strings.Contains(report.Err.Error(), want) {
				t.Errorf("%s: %v", report.Outcome, report.Err)
			}
		})
	}
}

// It runs whatever state the lane is in, as the attempt that it would be.
func TestDryRunInEveryState(t *testing.T) {
	t.Parallel()
	for state, attempt := range map[string]int{"ready": 1, "backoff": 4, "stuck": 1, "paused": 1, "waiting": 1} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			s := rehearsal(t)
			s.exec(`update inboxd.lanes set state = $1, attempts = case when $1 = 'ready' then 0 else 3 end, replayed_to = 1, next_attempt_at = now() + interval '1 h'`, state)
			var replay bool
			reg := handlers.New()
			handlers.On(reg, "T", func(_ context.Context, _ pgx.Tx, e handlers.Event[[]byte]) error { replay = e.Replay; return nil })
			report, err := s.dryRun(reg, ordering.Config{})
			must(t, err)
			if report.Event.Attempt != attempt || !replay || report.Outcome != ordering.DryRunProcessed {
				t.Errorf("attempt %d, want %d; replay %v; %s", report.Event.Attempt, attempt, replay, report.Outcome)
			}
		})
	}
}

func TestDryRunGetsTheEditedPayload(t *testing.T) {
	t.Parallel()
	s := rehearsal(t)
	s.exec(`begin; select inboxd.edit(lane_id, 1, 'patched', 'ada', 'x') from inboxd.lanes; commit`)
	got := ""
	reg := handlers.New()
	handlers.On(reg, "T", func(_ context.Context, _ pgx.Tx, e handlers.Event[[]byte]) error { got = string(e.Data); return nil })
	_, err := s.dryRun(reg, ordering.Config{})
	must(t, err)
	if got != "patched" {
		t.Errorf("the handler got %q", got)
	}
}

func TestDryRunOfLanesThatCannot(t *testing.T) {
	t.Parallel()
	s := rehearsal(t)
	reg := handlers.New()
	reg.Ignore("T")
	report, err := s.dryRun(reg, ordering.Config{})
	must(t, err)
	if report.Outcome != ordering.DryRunProcessed {
		t.Errorf("an ignored type is %s", report.Outcome)
	}
	report, err = s.dryRun(handlers.New(), ordering.Config{})
	must(t, err)
	if report.Outcome != ordering.DryRunStuck || !errors.Is(report.Err, ordering.ErrNoHandler) {
		t.Errorf("%s: %v", report.Outcome, report.Err)
	}
	p, err := ordering.New(s.pool, handlers.New(), ordering.Config{})
	must(t, err)
	if _, err := p.DryRun(t.Context(), "nobody"); !errors.Is(err, ordering.ErrNoAggregate) {
		t.Error(err)
	}
	conn, err := s.pool.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), `select from inboxd.lanes for update`)
	must(t, err)
	began := time.Now()
	if _, err := p.DryRun(t.Context(), "agg-0"); !errors.Is(err, ordering.ErrBusy) || time.Since(began) < 900*time.Millisecond {
		t.Errorf("%v after %s", err, time.Since(began))
	}
	must(t, tx.Rollback(t.Context()))
	s.exec(`update inboxd.lanes set cursor = 2`)
	if _, err := p.DryRun(t.Context(), "agg-0"); !errors.Is(err, ordering.ErrNoHead) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.DryRun(ctx, "agg-0"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A type's own time-out is the one that counts.
func TestDryRunKeepsToTheTypesTimeout(t *testing.T) {
	t.Parallel()
	s := rehearsal(t)
	reg := handlers.New()
	handlers.On(reg, "T", func(ctx context.Context, _ pgx.Tx, _ handlers.Event[[]byte]) error { <-ctx.Done(); return ctx.Err() },
		handlers.WithTimeout(50*time.Millisecond))
	report, err := s.dryRun(reg, ordering.Config{HandlerTimeout: 5 * time.Minute})
	must(t, err)
	if report.Outcome != ordering.DryRunFailed || report.Took > time.Minute {
		t.Errorf("%s after %s: %v", report.Outcome, report.Took, report.Err)
	}
	reg = handlers.New()
	handlers.On(reg, "T", func(ctx context.Context, tx pgx.Tx, _ handlers.Event[[]byte]) error {
		_, err := tx.Exec(ctx, `select 1 / (current_setting('statement_timeout') = '7s')::int`)
		return err
	}, handlers.WithTimeout(7*time.Second))
	report, err = s.dryRun(reg, ordering.Config{HandlerTimeout: time.Second})
	must(t, err)
	if report.Outcome != ordering.DryRunProcessed {
		t.Errorf("%s: %v", report.Outcome, report.Err)
	}
}

// A handler that does not return is left behind; what it holds is not.
func TestDryRunOfADeafHandler(t *testing.T) {
	t.Parallel()
	s := rehearsal(t)
	release, ended := make(chan struct{}), make(chan struct{})
	reg := handlers.New()
	handlers.On(reg, "T", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		defer close(ended)
		if err := effect(ctx, tx, e.Message); err != nil {
			return err
		}
		<-release
		_, err := tx.Exec(context.Background(), `commit`)
		return err
	})
	report, err := s.dryRun(reg, ordering.Config{HandlerTimeout: 100 * time.Millisecond})
	must(t, err)
	if report.Outcome != ordering.DryRunFailed || !strings.Contains(report.Err.Error(), "did not return") {
		t.Errorf("%s: %v", report.Outcome, report.Err)
	}
	close(release)
	<-ended
	if n := one[int](s, `select count(*) from effects`); n != 0 {
		t.Errorf("it wrote %d effects", n)
	}
}

// After a dry run the lane runs as ever.
func TestALaneRunsAfterADryRun(t *testing.T) {
	t.Parallel()
	s := rehearsal(t)
	reg := sqlRegistry(t, "T", "U")
	_, err := s.dryRun(reg, ordering.Config{})
	must(t, err)
	p, err := ordering.New(s.pool, reg, quick())
	must(t, err)
	must(t, p.Run(t.Context()))
	if got := one[string](s, `select string_agg(event_id, ' ' order by n) from effects`); got != "T-0-0 U-0-0" {
		t.Error(got)
	}
}
