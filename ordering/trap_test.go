package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/ordering"
)

// Trap 1: a lock that passes over what is locked takes the second event of a
// lane while the first still runs.
func TestSecondEventWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 4)
	a, b := s.session(1), s.session(2)
	l := a.load(1)
	a.beginClaim(l)
	if got := b.load(1); got.cursor != 0 || got.events != 4 {
		t.Errorf("beside a running head, load answers cursor %d and %d events", got.cursor, got.events)
	}
	b.begin()
	moved(t, b.claim(b.s.session(3).load(1)))
	b.rollback()
	must(t, a.advance(l, 1))
	a.commit()
	s.sound()
}

// Trap 1, with processors: of two, one at a time runs the lane.
func TestOneLaneRunsOnceAtATime(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 300)
	var running, most atomic.Int32
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer running.Add(-1)
		return effect(ctx, tx, e.Message)
	})
	cfg := quick()
	cfg.Batch = 3
	var both sync.WaitGroup
	for range 2 {
		p, err := ordering.New(s.pool, reg, cfg)
		must(t, err)
		both.Go(func() {
			if err := p.Run(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	s.inOrder(300)
	s.sound()
	if most.Load() != 1 {
		t.Errorf("%d handlers of one lane ran at once", most.Load())
	}
}

// Trap 2: what was read before the lock was taken may be old. A claim by such
// knowledge fails.
func TestStaleClaimFails(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, 4)
	a, b := s.session(1), s.session(2)
	l, stale, other := a.load(1), b.load(1), b.load(2)
	a.beginClaim(l)
	must(t, a.advance(l, 2))
	a.commit()
	b.begin()
	moved(t, b.claim(stale))
	b.rollback()
	b.begin()
	moved(t, b.claim(other, stale)) // all of them or none
	b.rollback()
	if got := b.load(1); got.cursor != 2 || got.events != 2 {
		t.Errorf("load answers cursor %d and %d events, want 2 and 2", got.cursor, got.events)
	}
}

// A claim that fails has locked no row: a rollback would leave traces, and whoever
// takes these lanes over would run them with care, event by event.
func TestClaimThatFailsLeavesNoTrace(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, 4)
	a, b := s.session(1), s.session(2)
	one, two, three := a.load(1), b.load(2), b.load(3)
	a.beginClaim(one)
	b.begin()
	moved(t, b.claim(two, one, three)) // a runs one of them
	b.rollback()
	must(t, a.advance(one, 1))
	a.commit()
	b.begin()
	moved(t, b.claim(two, one, three)) // a has run one of them
	b.rollback()
	for lane := int64(1); lane <= 3; lane++ {
		if b.load(lane).traced {
			t.Errorf("lane %d shows a trace", lane)
		}
	}
	b.beginClaim(two, three)
	b.rollback()
	if !b.load(2).traced || !b.load(3).traced {
		t.Error("a run that was given up left no trace")
	}
}

// Trap 2, the statement itself: the statement that calls claim began, and took
// its snapshot, before the other session committed. Claim sees the commit.
func TestClaimSeesWhatItsSnapshotDoesNot(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 4)
	a, b, gate := s.session(1), s.session(2), s.session(3)
	l := a.load(1)
	gate.exec(`select pg_advisory_lock(77)`)
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	b.begin()
	done := b.waiting(func() error {
		return b.try(`select inboxd.claim(2, array[1::bigint], array[0::bigint], array[0], 0, 0, 0)
			from (select pg_advisory_xact_lock(77) offset 0) g where g is not null`)
	})
	a.commit()
	gate.exec(`select pg_advisory_unlock(77)`)
	moved(t, <-done)
	b.rollback()
}

// Trap 3: under repeatable read the lane's lock alone proves nothing, for the
// cursor is read as it was when the transaction began.
func TestClaimUnderRepeatableRead(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.put("Paid", 1, 4)
			a, b := s.session(1), s.session(2)
			l := a.load(1)
			b.exec(`begin isolation level ` + level)
			b.exec(`select count(*) from inboxd.lanes`)
			a.beginClaim(l)
			must(t, a.advance(l, 1))
			a.commit()
			if err := b.claim(l); state(err) != "40001" && state(err) != "IBX01" {
				t.Errorf("claim: %v, want that it fails", err)
			}
			b.rollback()
			s.sound()
		})
	}
}

// Trap 3, with a pool whose transactions are repeatable read unless they say
// otherwise.
func TestRepeatableReadByDefault(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, 100)
	config, err := pgxpool.ParseConfig(s.url)
	must(t, err)
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
	s.pool = pgtest.PoolConfig(t, config)
	cfg := quick()
	cfg.UntilIdle = false
	reg := sqlRegistry(t, "Paid")
	s.start(reg, cfg)
	s.start(reg, cfg)
	s.until(`select count(*) = 300 from effects`)
	s.inOrder(300)
	s.sound()
}

// Trap 5: a snapshot that is held open elsewhere keeps all dead versions of the
// lane's row and all events that were passed.
func TestLoadUnderAnOldSnapshot(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.fill(2, 3000, 0)
	a, old := s.session(1), s.session(2)
	old.exec(`begin isolation level repeatable read`)
	old.exec(`select count(*) from inboxd.lanes`)
	before := s.buffers(`select * from inboxd.load(array[1::bigint], 16, 8192)`)
	for range 590 {
		l := a.load(1)
		a.beginClaim(l)
		must(t, a.advance(l, 5))
		a.commit()
	}
	after := s.buffers(`select * from inboxd.load(array[1::bigint], 16, 8192)`)
	t.Logf("load touches %d buffers, after 590 advances under an old snapshot %d", before, after)
	if after > 40 {
		t.Errorf("load touches %d buffers, before the advances it was %d", after, before)
	}
	old.rollback()
}

// A trace stands for a run that ended without a word, and for nothing else: a
// lane that ran before runs its next events like any other.
func TestTraceOnlyOfACrash(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 5)
	a, b := s.session(1), s.session(2)
	traced := func(when string, want bool) {
		t.Helper()
		if got := b.load(1).traced; got != want {
			t.Errorf("%s: traced %v, want %v", when, got, want)
		}
	}
	traced("new", false)
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	a.commit()
	traced("after an advance", false)
	l = a.load(1)
	a.beginClaim(l)
	must(t, a.fail(l, in(0)))
	a.commit()
	traced("after a failure", false)
	l = a.load(1)
	a.beginClaim(l)
	a.dies()
	traced("after a run that ended without a word", true)
	l = b.load(1)
	b.beginClaim(l)
	must(t, b.advance(l, 1))
	b.commit()
	traced("after the run that followed", false)
}

// Two processors may be made of one registry at the same moment.
func TestProcessorsShareARegistry(t *testing.T) {
	t.Parallel()
	s := setup(t)
	reg := sqlRegistry(t, "Paid")
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := ordering.New(s.pool, reg, quick()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
}

// A lane that comes and goes runs no more carefully than a new one: care costs
// a commit an event.
func TestNoCareWithoutACrash(t *testing.T) {
	t.Parallel()
	s := setup(t)
	reg := sqlRegistry(t, "A", "B", "C")
	for i, eventType := range []string{"A", "B", "C"} {
		s.put(eventType, 20, 3)
		p := s.run(reg, quick())
		if st := p.Stats(); st.Turns > 30 {
			t.Errorf("round %d: 20 lanes of 3 events took %d turns", i, st.Turns)
		}
	}
	s.inOrder(180)
}

// Trap 6: ingest does not wait for a row that a running handler holds.
func TestStoreWhileALaneRuns(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 1)
	a := s.session(1)
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	a.s.put("More", 1, 1) // would wait for ever
	if got := a.settle(1); len(got.idle) > 0 {
		t.Error("settle calls a lane done that has just got an event")
	}
	a.commit()
	if got := a.settle(1); len(got.runnable) != 1 {
		t.Errorf("settle answers %+v, want that the lane can run", got)
	}
	s.findable(1)
	s.sound()
}

// Trap 12: a handler's own time-out is its failure; the stop of the processor,
// which looks the same from inside, is none.
func TestTimeoutOfTheHandlersOwn(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, 2)
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		if e.ID == "Paid-1-0" {
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			<-short.Done()
			return fmt.Errorf("ask the bank: %w", short.Err())
		}
		return effect(ctx, tx, e.Message)
	})
	p := s.run(reg, quick())
	if st := p.Stats(); st.Failed != 4 || st.Stuck != 1 || st.Processed != 2 {
		t.Errorf("%+v, want 4 failures that make one lane stuck", st)
	}
	if got := one[string](s, `select error_message from inboxd.lanes where state = 'stuck'`); got != "ask the bank: context deadline exceeded" {
		t.Errorf("stuck with %q", got)
	}
}

// Trap 12, the other way round: a run that the stop cut short succeeded with
// nothing and failed with nothing.
func TestStopIsNoFailure(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 1)
	entered := make(chan struct{})
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		if err := effect(ctx, tx, e.Message); err != nil {
			return err
		}
		close(entered)
		<-ctx.Done()
		return nil
	})
	p, err := ordering.New(s.pool, reg, quick())
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- p.Run(context.Background()) }()
	<-entered
	p.Abort()
	var cut *ordering.CutShortError
	if err := <-done; !errors.As(err, &cut) {
		t.Errorf("run: %v, want that it was cut short", err)
	}
	if n := one[int](s, `select (select count(*) from effects) + (select count(*) from inboxd.failures)`); n != 0 {
		t.Errorf("%d effects and failures, want none", n)
	}
	s.sound()
}
