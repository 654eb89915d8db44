package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/ordering"
)

// leastRatio is what is asked of a rate beside the rate without the trouble. On
// a machine of its own it is 0.9 and more; tests run beside others.
const leastRatio = 0.6

// troubles is a registry with handlers that work, never do, are slow, and are
// blocked by whoever holds a row.
type troubles struct {
	*handlers.Registry
	calls atomic.Int64 // of the one that works
}

func newTroubles(t testing.TB) *troubles {
	reg := &troubles{Registry: handlers.New()}
	handlers.OnQueue(reg.Registry, "Works", func(_ context.Context, b *pgx.Batch, e handlers.Event[[]byte]) error {
		reg.calls.Add(1)
		b.Queue(`insert into effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Position)
		return nil
	})
	handlers.On(reg.Registry, "Never", func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
		return errors.New("never")
	})
	handlers.On(reg.Registry, "Stuck", func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
		return handlers.Permanent(errors.New("no such account"))
	})
	handlers.On(reg.Registry, "Slow", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		timer := time.NewTimer(50 * time.Millisecond)
		defer timer.Stop()
		<-timer.C
		return effect(ctx, tx, e.Message)
	})
	const take = `update balances set amount = amount - 1 where account_id = `
	handlers.On(reg.Registry, "Direct", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		if _, err := tx.Exec(ctx, take+`$1`, e.AggregateID); err != nil {
			return err
		}
		return effect(ctx, tx, e.Message)
	})
	must(t, handlers.SQL(reg.Registry, "Queued", take+`@aggregate_id`, appendEffect))
	return reg
}

func patient() ordering.Config {
	cfg := quick()
	cfg.UntilIdle = false
	cfg.Retry = ordering.Retry{Initial: 100 * time.Millisecond, Max: time.Second, Attempts: 1000}
	return cfg
}

// race compares how fast 100 lanes of 100 events each are without a trouble and
// with it, again and again, until the best of both are close enough.
type race struct {
	s      *stage
	p      *ordering.Processor
	rounds int
}

func (r *race) run(quiet, trouble func()) {
	r.s.t.Helper()
	r.s.store = inbox.NewStore(r.s.pool, "", inbox.OnStored(r.p.Wake))
	r.round() // to warm up
	without, with := time.Hour, time.Hour
	for range 6 {
		quiet()
		without = min(without, r.round())
		trouble()
		with = min(with, r.round())
		if without.Seconds()/with.Seconds() >= leastRatio {
			break
		}
	}
	ratio := without.Seconds() / with.Seconds()
	r.s.t.Logf("%s without, %s with: %.2f of the rate, after %d rounds", without, with, ratio, r.rounds)
	if ratio < leastRatio {
		r.s.t.Errorf("with the trouble the rate is %.2f of that without, want %.2f at least", ratio, leastRatio)
	}
}

// round answers how long 10,000 events take to be stored and processed.
func (r *race) round() time.Duration {
	r.s.t.Helper()
	r.rounds++
	events := make([]inbox.Event, 10_000)
	for i := range events {
		events[i] = inbox.Event{ID: fmt.Sprintf("works-%d-%d", r.rounds, i), AggregateID: fmt.Sprint("agg-", i%100), Type: "Works"}
	}
	began := time.Now()
	for chunk := range slices.Chunk(events, 1000) {
		_, err := r.s.store.Put(context.Background(), chunk)
		must(r.s.t, err)
	}
	r.s.until(`select count(*) = $1 from effects where event_id like 'works-%'`, r.rounds*len(events))
	return time.Since(began)
}

func TestHeldLanesSlowNobody(t *testing.T) {
	t.Parallel()
	s := setup(t)
	reg := newTroubles(t)
	p := s.start(reg.Registry, patient())
	s.hold()
	r := race{s: s, p: p}
	const set = `update inboxd.lanes set next_attempt_at = clock_timestamp() + $1::interval where state = 'backoff'`
	r.run(func() { s.exec(set, "1 day") }, func() {
		before := p.Stats().Failed
		s.exec(set, "0")
		counts(t, p, "all lanes to fail again", func(st ordering.Stats) bool { return st.Failed >= before+100 })
	})
	// A failing lane undoes the work of those that it shares a turn with, if it
	// shares turns.
	done := int64(r.rounds * 10_000)
	t.Logf("%d calls for %d events, %d failures", reg.calls.Load(), done, p.Stats().Failed)
	if calls := reg.calls.Load(); calls > done*12/10 {
		t.Errorf("%d calls for %d events: the others' work is undone too often", calls, done)
	}
	if n := one[int](s, `select count(*) from inboxd.lanes where state = 'stuck' and cursor = 0`); n != 1 {
		t.Errorf("%d lanes are stuck, want 1", n)
	}
}

// hold makes a lane stuck with 1,000 events behind its head, and has 100 lanes
// fail again and again.
func (s *stage) hold() {
	s.t.Helper()
	events := make([]inbox.Event, 1001)
	for i := range events {
		events[i] = inbox.Event{ID: fmt.Sprint("stuck-", i), AggregateID: "stuck", Type: "Stuck"}
	}
	for i := range 100 {
		events = append(events, inbox.Event{ID: fmt.Sprint("never-", i), AggregateID: fmt.Sprint("never-", i), Type: "Never"})
	}
	_, err := s.store.Put(context.Background(), events)
	must(s.t, err)
	s.until(`select count(*) = 101 from inboxd.lanes where state in ('stuck', 'backoff')`)
}

func TestSlowLaneSlowsNobody(t *testing.T) {
	t.Parallel()
	s := setup(t)
	cfg := patient()
	cfg.Batch = 2 // so that the slow lane comes back often while others wait
	p := s.start(newTroubles(t).Registry, cfg)
	r := race{s: s, p: p}
	n := 0
	r.run(func() {
		s.until(`select not exists (select from inboxd.aggregates a join inboxd.lanes using (lane_id) where last_position > cursor)`)
	}, func() {
		for range 100 { // 5 s of work
			n++
			s.event(fmt.Sprint("slow-", n), "slow", "Slow")
		}
	})
	if n == one[int](s, `select count(*) from effects where aggregate_id = 'slow'`) {
		t.Error("the slow lane was done before the others")
	}
	// Those that wait for it are those that share its transactions.
	const slowTurns = `select count(distinct xmin::text) from effects where aggregate_id = 'slow'`
	for one[int](s, slowTurns) < 12 {
		r.round()
	}
	turns := one[int](s, slowTurns)
	shared := one[int](s, `select count(distinct s.xmin::text) from effects s join effects o on o.xmin = s.xmin
		where s.aggregate_id = 'slow' and o.aggregate_id <> 'slow'`)
	t.Logf("the slow lane had %d turns, %d of them with others", turns, shared)
	if shared > 2 {
		t.Errorf("of the slow lane's %d turns %d were shared by others, want that it runs on its own once it is known to be slow", turns, shared)
	}
}

// A statement waits for a row that somebody else holds: its lane waits with it,
// and no other; no attempt is used up.
func TestBlockedStatementHoldsUpItsOwnLane(t *testing.T) {
	for _, form := range []string{"Direct", "Queued"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.exec(`insert into balances select 'agg-' || n from generate_series(0, 49) n`)
			s.put(form, 50, 40)
			owner := s.session(1)
			owner.begin()
			owner.exec(`select * from balances where account_id = 'agg-0' for update`)
			p := s.start(newTroubles(t).Registry, patient())
			s.until(`select count(*) = 49 * 40 from effects where aggregate_id <> 'agg-0'`)
			s.until(`select exists (select from pg_stat_activity
				where datname = current_database() and wait_event_type = 'Lock' and clock_timestamp() - query_start > interval '2 s')`)
			if n := one[int](s, `select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`); n != 1 {
				t.Errorf("%d sessions wait, want that of the one lane", n)
			}
			owner.commit()
			s.until(`select count(*) = 50 * 40 from effects`)
			s.inOrder(2000)
			if st := p.Stats(); st.Failed != 0 {
				t.Errorf("%d attempts were used up", st.Failed)
			}
			s.sound()
		})
	}
}

// Lanes that are stuck or back off hold no worker, even if there is only one, and
// no connection, lock or transaction.
func TestHeldLanesHoldNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	cfg := patient()
	cfg.Workers = 1
	cfg.Retry.Initial, cfg.Retry.Max = time.Hour, time.Hour
	p := s.start(newTroubles(t).Registry, cfg)
	s.listening()
	s.put("Stuck", 1, 3)
	for i := range 20 {
		s.event(fmt.Sprint("never-", i), fmt.Sprint("never-", i), "Never")
	}
	s.until(`select count(*) = 21 from inboxd.lanes where state in ('stuck', 'backoff')`)
	s.until(`select count(*) = 21 from inboxd.aggregates where parked`)
	counts(t, p, "no lane in memory", func(st ordering.Stats) bool { return st.Lanes == 0 })
	s.nothingLocked()
	if n := s.pool.Stat().AcquiredConns(); n > 1 { // the heartbeat's, for a moment
		t.Errorf("%d connections are in use", n)
	}
	s.event("a", "agg-a", "Works")
	s.until(`select count(*) = 1 from effects`)
}
