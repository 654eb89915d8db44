package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/migrations"
	"github.com/inboxd/inboxd/ordering"
)

// seldom is a configuration whose sweep comes by so seldom that whatever runs
// soon was woken by something else.
func seldom() ordering.Config {
	cfg := quick()
	cfg.UntilIdle = false
	cfg.Sweep = 10 * time.Minute
	return cfg
}

const listenerSQL = `from pg_stat_activity where datname = current_database() and query ilike 'listen%'`

// listening waits until a processor listens.
func (s *stage) listening() {
	s.t.Helper()
	s.until(`select exists (select ` + listenerSQL + `)`)
}

// done waits until n events are processed.
func (s *stage) done(n int) {
	s.t.Helper()
	s.until(`select coalesce(sum(cursor), 0) = $1 from inboxd.lanes`, n)
}

// counts waits until the processor's counts are so.
func counts(t testing.TB, p *ordering.Processor, want string, ok func(ordering.Stats) bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok(p.Stats()) {
		select {
		case <-deadline:
			t.Fatalf("%+v, want %s", p.Stats(), want)
		case <-tick.C:
		}
	}
}

func TestNotificationsWakeLanes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Before", 5, 4)
	p := s.start(sqlRegistry(t, "Before", "After0", "After1", "After2"), seldom())
	s.listening()
	s.done(20)
	// The sweep that follows the connect may come late, once; none comes after it.
	woken := 0
	for i := range 3 {
		before := p.Stats().Swept
		s.put(fmt.Sprint("After", i), 5, 4)
		n := 40 + 20*i
		s.done(n)
		counts(t, p, "all events", func(st ordering.Stats) bool { return st.Processed == int64(n) })
		if p.Stats().Swept == before {
			woken++
		}
	}
	if woken < 2 {
		t.Errorf("the sweep found lanes in %d rounds of 3, want one at most", 3-woken)
	}
	s.inOrder(80)
}

// A lane that a sweep found is like any other when notifications tell of its
// next events.
func TestSweptOnceIsNotSweptForEver(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("First", 1, 1)
	entered, release := make(chan struct{}), make(chan struct{})
	reg := sqlRegistry(t, "Paid")
	handlers.On(reg, "First", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		close(entered)
		<-release
		return effect(ctx, tx, e.Message)
	})
	p := s.start(reg, seldom())
	s.listening()
	<-entered
	s.store = inbox.NewStore(s.pool, "", inbox.OnStored(p.Wake))
	s.put("Paid", 1, 10)
	close(release)
	s.done(11)
	s.inOrder(11)
	if st := p.Stats(); st.Swept != 1 {
		t.Errorf("the sweep is said to have found %d events, want 1", st.Swept)
	}
}

// What comes while the listener's connection is away is found by the sweep that
// follows its return.
func TestListenerIsCut(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.start(sqlRegistry(t, "E0", "E1", "E2", "E3"), seldom())
	for i := range 4 {
		s.listening()
		s.exec(`select pg_terminate_backend(pid, 5000) ` + listenerSQL)
		s.put(fmt.Sprint("E", i), 10, 3)
		s.done(30 * (i + 1))
	}
	s.inOrder(120)
}

// Events that were stored after the first sweep and before the first LISTEN.
func TestListenerConnectsAfterTheInsert(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("First", 1, 1)
	connect := make(chan struct{})
	cfg := seldom()
	cfg.Connect = func(ctx context.Context) (*pgx.Conn, error) {
		select {
		case <-connect:
			return pgx.Connect(ctx, s.url)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p := s.start(sqlRegistry(t, "First", "Paid"), cfg)
	s.done(1) // the first sweep has been
	s.put("Paid", 10, 3)
	close(connect)
	s.done(31)
	s.inOrder(31)
	counts(t, p, "31 events found by the sweep", func(st ordering.Stats) bool { return st.Swept == 31 })
}

var errNoListener = errors.New("this pooler cannot listen")

func deaf(context.Context) (*pgx.Conn, error) { return nil, errNoListener }

// A process that hears nothing lives on its sweep, and says so.
func TestSweepFindsAll(t *testing.T) {
	t.Parallel()
	s := setup(t)
	cfg := quick()
	cfg.UntilIdle = false
	cfg.Connect = deaf
	p := s.start(sqlRegistry(t, "E0", "E1", "E2"), cfg)
	for i := range 3 {
		s.put(fmt.Sprint("E", i), 20, 3)
		s.done(60 * (i + 1))
	}
	s.inOrder(180)
	counts(t, p, "180 events, all found by the sweep", func(st ordering.Stats) bool {
		return st.Processed == 180 && st.Swept == 180
	})
}

// Who stores and runs in one process needs no notification.
func TestWakeInProcess(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("First", 1, 1)
	cfg := seldom()
	cfg.Connect = deaf
	p := s.start(sqlRegistry(t, "First", "Paid"), cfg)
	s.done(1)
	s.store = inbox.NewStore(s.pool, "", inbox.OnStored(p.Wake))
	s.put("Paid", 20, 3)
	s.done(61)
	s.inOrder(61)
	if st := p.Stats(); st.Swept != 1 {
		t.Errorf("the sweep found %d events, want 1", st.Swept)
	}
}

// So many lanes that a notification cannot name them.
func TestTenThousandLanesAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.start(sqlRegistry(t, "Paid"), seldom())
	s.listening()
	heard, err := pgx.Connect(context.Background(), s.url)
	must(t, err)
	defer heard.Close(context.Background())
	_, err = heard.Exec(context.Background(), `listen `+migrations.Channel(inbox.DefaultSchema))
	must(t, err)
	events := make([]inbox.Event, 10_000)
	for i := range events {
		events[i] = inbox.Event{ID: fmt.Sprint("e", i), AggregateID: fmt.Sprint("agg-", i), Type: "Paid"}
	}
	_, err = s.store.Put(context.Background(), events)
	must(t, err)
	soon, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	n, err := heard.WaitForNotification(soon)
	must(t, err)
	if n.Payload != "*" {
		t.Errorf("the notification is %.40q, want *", n.Payload)
	}
	s.done(10_000)
	s.inOrder(10_000)
}

// fill stores perLane events of each of so many lanes, with statements that take
// a set at once. The first held lanes are stuck.
func (s *stage) fill(lanes, perLane, held int) {
	s.t.Helper()
	s.exec(`insert into inboxd.aggregates (aggregate_id, last_position, parked)
		select 'agg-' || n, $2, n <= $3 from generate_series(1, $1::int) n order by n`, lanes, perLane, held)
	s.exec(`insert into inboxd.lanes (lane_id, aggregate_id, segment, state)
		select lane_id, aggregate_id, 1, case when parked then 'stuck' else 'ready' end from inboxd.aggregates order by lane_id`)
	s.exec(`insert into inboxd.inbox (lane_id, position, received_at, occurred_at, segment, event_id, aggregate_id, event_type, payload)
		select lane_id, p, now(), now(), 1, 'e-' || lane_id || '-' || p, aggregate_id, 'Paid', '{}'
		from inboxd.aggregates, generate_series(1, $1::int) p`, perLane)
}

// Lanes that there is no room for wait in the database until there is.
func TestMoreLanesThanAreTracked(t *testing.T) {
	t.Parallel()
	s := setup(t)
	lanes := ordering.MaxTracked + 2000
	s.fill(lanes, 1, 0)
	p := s.run(sqlRegistry(t, "Paid"), quick())
	s.inOrder(lanes)
	if st := p.Stats(); st.Swept != int64(lanes) || st.Lanes != 0 {
		t.Errorf("%+v, want that the sweep found %d events and no lane is left", st, lanes)
	}
}

// A drain is over when nothing can run, lanes included that were turned away for
// lack of room and lie behind the place where the sweep goes on.
func TestDrainComesBackForWhatItTurnedAway(t *testing.T) {
	t.Parallel()
	s := setup(t)
	lanes := (ordering.MaxTracked/ordering.Page + 1) * ordering.Page // the last page is full, and part of it finds no room
	s.fill(lanes, 1, 0)
	busy := s.session(1)
	busy.begin()
	busy.exec(`select count(*) from (select 1 from inboxd.aggregates for update) a`) // the settler passes all lanes by
	p, err := ordering.New(s.pool, sqlRegistry(t, "Paid"), quick())
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- p.Run(context.Background()) }()
	s.done(ordering.MaxTracked)
	busy.commit() // it settles them all at once
	must(t, <-done)
	s.inOrder(lanes)
}

// A backoff that ends soon is not overlooked for one that ends late, even when
// another process began it.
func TestBackoffOfAnotherProcess(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Later", 1, 1)
	reg := sqlRegistry(t, "Paid")
	handlers.On(reg, "Later", func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
		return handlers.RetryAfter(errors.New("tomorrow"), 24*time.Hour)
	})
	cfg := quick()
	cfg.UntilIdle = false
	p := s.start(reg, cfg)
	s.until(`select state = 'backoff' from inboxd.lanes where lane_id = 1`)
	s.until(`select parked from inboxd.aggregates where lane_id = 1`)
	other := s.session(99)
	other.begin()
	must(t, other.storeOne("e", "agg-x"))
	l := other.load(2)
	must(t, other.claim(l))
	must(t, other.fail(l, in(200*time.Millisecond)))
	other.exec(`update inboxd.aggregates set parked = true where lane_id = 2`)
	other.commit()
	s.until(`select count(*) = 1 from effects`)
	counts(t, p, "that the lane ran here", func(st ordering.Stats) bool { return st.Processed == 1 })
}
