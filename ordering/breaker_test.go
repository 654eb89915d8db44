package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/ordering"
)

// bank is something that handlers depend on, and that can be down.
type bank struct {
	down  atomic.Bool
	calls atomic.Int64
	err   error // what a call answers while it is down
}

func (b *bank) registry() *handlers.Registry {
	reg := handlers.New()
	handlers.On(reg, "Transfer", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		b.calls.Add(1)
		if b.down.Load() {
			return b.err
		}
		return effect(ctx, tx, e.Message)
	})
	handlers.On(reg, "Other", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		return effect(ctx, tx, e.Message)
	})
	return reg
}

func probing() ordering.Config {
	cfg := quick()
	cfg.UntilIdle = false
	return cfg
}

var errUnreachable = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// One lane finds the dependency down: all of its type wait, in both processes,
// without using up attempts; the other type runs on; when the dependency is back
// all go on, in order.
func TestPauseHoldsTheType(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Transfer", 50, 4)
	b := &bank{err: handlers.Pause(errors.New("the bank is closed"))}
	b.down.Store(true)
	for range 2 {
		s.start(b.registry(), probing())
	}
	s.until(`select count(*) = 50 from inboxd.lanes where state in ('paused', 'backoff')`)
	const probesSQL = `select probes from inboxd.breakers where event_type = 'Transfer'`
	probes, calls := one[int64](s, probesSQL), b.calls.Load()
	for i := range 40 { // lanes that have not met it themselves
		s.putNamed("Transfer", fmt.Sprint("late-", i), 1)
	}
	s.until(`select count(*) = 40 from inboxd.lanes where aggregate_id like 'late-%' and paused_type = 'Transfer'`)
	s.putNamed("Other", "elsewhere", 5)
	s.until(`select count(*) = 5 from effects where aggregate_id = 'elsewhere'`)
	s.until(`select probes >= 3 from inboxd.breakers where event_type = 'Transfer'`)
	more := b.calls.Load() - calls
	if probes = one[int64](s, probesSQL) - probes; more > probes+10 {
		t.Errorf("the bank was called %d times while it was known to be down, want probes alone, which were %d", more, probes)
	}
	if n := one[int](s, `select count(*) from inboxd.failures where not crash`); n != 0 {
		t.Errorf("%d attempts were counted, want none", n)
	}
	if n := one[int](s, `select count(*) from inboxd.audit where action = 'breaker-open'`); n != 1 {
		t.Errorf("the audit has %d openings, want one", n)
	}
	b.down.Store(false)
	s.until(`select count(*) = 245 from effects`)
	s.inOrder(245)
	if n := one[int](s, `select max(attempts) from inboxd.events`); n != 1 {
		t.Errorf("an event has %d attempts, want 1", n)
	}
	s.until(`select not exists (select from inboxd.breakers) and not exists (select from inboxd.lanes where paused_type is not null)`)
	// A call that was under way when the bank opened may have paused it once more.
	if !one[bool](s, `select count(*) filter (where action = 'breaker-close') = count(*) filter (where action = 'breaker-open') from inboxd.audit`) {
		t.Error("the audit has not a closing for each opening")
	}
	s.sound()
}

// Failures that look like a dependency's pause the type when several lanes in a
// row have them; what was counted until then is little.
func TestFailuresOfADependencyPauseTheType(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Transfer", 100, 2)
	b := &bank{err: errUnreachable}
	b.down.Store(true)
	cfg := probing()
	cfg.Retry.Attempts = 20
	s.start(b.registry(), cfg)
	s.until(`select exists (select from inboxd.breakers where probes >= 2)`)
	if n := one[int](s, `select count(distinct lane_id) from inboxd.failures`); n > 30 {
		t.Errorf("%d lanes used up attempts before the type was paused, want a few", n)
	}
	if n := one[int](s, `select count(*) from inboxd.lanes where state = 'stuck'`); n != 0 {
		t.Errorf("%d lanes are stuck", n)
	}
	b.down.Store(false)
	s.until(`select count(*) = 200 from effects`)
	s.inOrder(200)
	s.sound()
}

// A failure of the event's own in a probe shows that the dependency is back.
func TestAProbeThatFailsByItselfClosesTheBreaker(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Transfer", 3, 1)
	var down atomic.Bool
	down.Store(true)
	reg := handlers.New()
	handlers.On(reg, "Transfer", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		if down.Load() {
			return handlers.Pause(errors.New("closed"))
		}
		if e.AggregateID == "agg-0" {
			return errors.New("no such account")
		}
		return effect(ctx, tx, e.Message)
	})
	cfg := probing()
	cfg.Breaker = ordering.Breaker{Probe: time.Hour, Max: 2 * time.Hour} // the test says when
	s.start(reg, cfg)
	s.until(`select count(*) = 3 from inboxd.lanes where state = 'paused'`)
	down.Store(false)
	s.exec(`update inboxd.breakers set next_probe_at = now()`)
	s.until(`select count(*) = 2 from effects`)
	s.until(`select state = 'stuck' and attempts = 4 from inboxd.lanes where aggregate_id = 'agg-0'`)
	s.sound()
}

// Without a breaker that is inferred, an unreachable dependency uses up attempts.
func TestBreakerCanBeLeftOut(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Transfer", 20, 1)
	b := &bank{err: errUnreachable}
	b.down.Store(true)
	cfg := quick()
	cfg.Breaker.Lanes = -1
	s.run(b.registry(), cfg)
	if n := one[int](s, `select count(*) from inboxd.lanes where state = 'stuck'`); n != 20 {
		t.Errorf("%d lanes are stuck, want 20", n)
	}
}

// The process that began a probe dies: the next probe is another one's, and the
// lane that was probed is not lost.
func TestProbeOfADeadProcess(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Transfer", 4, 2)
	b := &bank{err: handlers.Pause(errors.New("closed"))}
	b.down.Store(true)
	cfg := quick()
	s.run(b.registry(), cfg) // until it has given up probing
	s.exec(`update inboxd.breakers set next_probe_at = now()`)
	if n := one[int](s, `select count(*) from inboxd.probe(array['Transfer'], '1 ms', '1 ms')`); n != 1 {
		t.Fatalf("%d lanes are probed, want one", n)
	}
	if n := one[int](s, `select count(*) from inboxd.probe(array['Another'], '1 ms', '1 ms')`); n != 0 {
		t.Fatal("a type is probed that the process has no handler for")
	}
	b.down.Store(false)
	s.run(b.registry(), cfg)
	s.inOrder(8)
	s.sound()
}

// A lane is being held while the breaker closes: it goes on nevertheless.
func TestHoldMeetsClose(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, 1)
	a, b := s.session(1), s.session(2)
	one1, two := a.load(1), a.load(2)
	a.beginClaim(one1)
	a.exec(`select inboxd.trip(1, 0, 'Paid', 'down', 'f', '1 s')`)
	a.commit()
	a.begin()
	if free := a.hold(two); len(free) != 0 {
		t.Fatalf("hold answers %v, want that the lane waits", free)
	}
	closed := b.waiting(func() error {
		_, err := b.conn.Exec(context.Background(), `select inboxd.close_breaker('Paid', 'inboxd', null)`)
		return err
	})
	a.commit()
	must(t, <-closed)
	if n := one[int](s, `select inboxd.go_on(10)`); n != 2 {
		t.Errorf("%d lanes go on, want 2", n)
	}
	s.findable(1)
	s.findable(2)
	// The other way round: what is not held any more is to run.
	if free := a.hold(a.load(2)); len(free) != 1 {
		t.Errorf("hold answers %v without a breaker, want the lane", free)
	}
	s.sound()
}

func (c *session) hold(l loaded) []int64 {
	c.t.Helper()
	var free []int64
	must(c.t, c.conn.QueryRow(context.Background(), `select inboxd.hold(array[$1::bigint], array[$2::bigint], array[$3::integer], 'Paid')`,
		l.lane, l.cursor, l.version).Scan(&free))
	return free
}

// An operator who says that the dependency is back closes the breaker for all.
func TestRetryOfAPausedTypeClosesItsBreaker(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Transfer", 5, 1)
	b := &bank{err: handlers.Pause(errors.New("closed"))}
	b.down.Store(true)
	cfg := probing()
	cfg.Breaker = ordering.Breaker{Probe: time.Hour, Max: time.Hour}
	s.start(b.registry(), cfg)
	s.until(`select count(*) = 5 from inboxd.lanes where state = 'paused'`)
	b.down.Store(false)
	s.exec(`select inboxd.change(lane_id, 'retry', null, null, 'ada', null) from inboxd.lanes where aggregate_id = 'agg-3'`)
	s.until(`select count(*) = 5 from effects`)
	s.sound()
}

// putNamed stores n events of one aggregate.
func (s *stage) putNamed(eventType, aggregate string, n int) {
	s.t.Helper()
	events := make([]inbox.Event, n)
	for i := range events {
		events[i] = inbox.Event{ID: fmt.Sprint(aggregate, "-", i), AggregateID: aggregate, Type: eventType, Payload: []byte("{}")}
	}
	_, err := s.store.Put(context.Background(), events)
	must(s.t, err)
}

// A breaker of a type that nobody here can probe keeps no drain waiting.
func TestDrainWithABreakerOfAnotherProgram(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, 2)
	s.exec(`insert into inboxd.breakers (event_type, reason, fingerprint, next_probe_at) values ('Elsewhere', 'away', 'f', now())`)
	s.run(sqlRegistry(t, "Paid"), quick())
	s.inOrder(4)
}
