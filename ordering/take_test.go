package ordering_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/ordering"
)

// written answers which of the lanes' rows a transaction has locked or tried to
// write, committed or not.
func (s *stage) written() string {
	s.t.Helper()
	return one[string](s, `select coalesce(string_agg(lane_id::text, ',' order by lane_id), '') from inboxd.lanes where xmax <> '0'`)
}

// Whoever meets a lane that is not as it was loaded, or that somebody else holds,
// fails at once: it waits for nobody, and leaves no trace that would look like a
// crash.
func TestTakeOfALaneThatIsHeld(t *testing.T) {
	t.Parallel()
	holders := map[string]func(a *session, l loaded){
		"by a turn that took it":    func(a *session, l loaded) { a.beginTake(l) },
		"by a turn that claimed it": func(a *session, l loaded) { a.beginClaim(l) },
		"by somebody's row lock": func(a *session, l loaded) {
			a.begin()
			a.exec(`select from inboxd.lanes where lane_id = $1 for update`, l.lane)
		},
		"by somebody's update": func(a *session, l loaded) {
			a.begin()
			a.exec(`update inboxd.lanes set version = version + 1 where lane_id = $1`, l.lane)
		},
	}
	for name, hold := range holders {
		for _, lanes := range [][]int64{{1}, {2, 1, 3}} {
			t.Run(fmt.Sprint(name, ", ", lanes), func(t *testing.T) {
				t.Parallel()
				s := setup(t)
				s.put("Paid", 3, 2)
				a, b := s.session(1), s.session(2)
				var known []loaded
				for _, lane := range lanes {
					known = append(known, b.load(lane))
				}
				hold(a, a.load(1))
				before := s.written()
				b.begin()
				b.exec(`set local statement_timeout = '20s'`)
				began := time.Now()
				err := b.take(known...)
				if moved(t, err); detail(err) != "1" {
					t.Errorf("it names the lanes %q, want 1", detail(err))
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %s: it waited", took)
				}
				b.rollback()
				if after := s.written(); after != before {
					t.Errorf("it left its mark on the lanes %s; before that %q showed one", after, before)
				}
				a.rollback()
			})
		}
	}
}

// A lane that moved on, or was changed, since it was loaded is not taken, whatever
// else is taken with it.
func TestTakeOfALaneThatMoved(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"cursor":  `update inboxd.lanes set cursor = 1 where lane_id = 1`,
		"version": `update inboxd.lanes set version = version + 1 where lane_id = 1`,
		"state":   `update inboxd.lanes set state = 'paused', paused_by = 'a', paused_reason = 'b', paused_from = 'ready' where lane_id = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.put("Paid", 3, 3)
			b := s.session(2)
			one, two := b.load(1), b.load(2)
			s.exec(change)
			for _, lanes := range [][]loaded{{one}, {two, one}} {
				b.begin()
				err := b.take(lanes...)
				if moved(t, err); detail(err) != "1" {
					t.Errorf("it names the lanes %q, want 1", detail(err))
				}
				b.rollback()
			}
			b.beginTake(two)
			must(t, b.work(two))
			b.commit()
			if got := s.written(); got != "" {
				t.Errorf("lanes %s show a mark", got)
			}
		})
	}
}

// An operator's change comes before what was taken after it.
func TestTakeComesAfterAChange(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, 3)
	b := s.session(2)
	first, second := b.load(1), b.load(2)
	s.exec(`insert into inboxd.changes (lane_id, action, actor) values (1, 'pause', 'ops')`)
	for _, lanes := range [][]loaded{{first}, {second, first}} {
		b.begin()
		err := b.take(lanes...)
		if state(err) != "IBX04" || detail(err) != "1" {
			t.Errorf("got %v (%s), want IBX04 for lane 1", err, detail(err))
		}
		b.rollback()
	}
}

// What dies after its cursor moved has moved nothing, and shows; what was run to
// its end does not.
func TestTakeIsUndoneByADeath(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := a.load(1)
	a.beginTake(l)
	must(t, a.work(l))
	a.commit()
	if got := b.load(1); got.cursor != 1 || got.traced {
		t.Errorf("after a turn: %+v, want cursor 1 and no trace", got)
	}
	l = a.load(1)
	a.beginTake(l)
	must(t, a.work(l))
	a.dies()
	got := b.load(1)
	if got.cursor != 1 || !got.traced {
		t.Errorf("after a death: %+v, want cursor 1 and a trace", got)
	}
	b.beginTake(got) // a trace is no lock
	must(t, b.work(got))
	b.commit()
	s.sound()
}

// A queued statement that ends the transaction would leave what follows outside of
// it, and the cursor with what came before: such a turn keeps the cursor for its
// end, and fails there.
func TestQueuedStatementThatEndsTheTransaction(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{"commit", "COMMIT work", "/* a /* b */ c */ commit and chain", "-- so\n; end", "rollback", "abort;"} {
		for _, events := range []int{1, 40} {
			t.Run(fmt.Sprint(strings.ReplaceAll(sql, "/", ":"), " ", events), func(t *testing.T) {
				t.Parallel()
				s := setup(t)
				s.put("Paid", 2, events)
				reg := handlers.New()
				handlers.OnQueue(reg, "Paid", func(_ context.Context, b *pgx.Batch, e handlers.Event[[]byte]) error {
					if e.ID == "Paid-1-0" {
						b.Queue(sql)
					}
					b.Queue(`insert into effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Position)
					return nil
				})
				s.run(reg, quick())
				s.nothingLocked()
				s.sessionsClean()
				if n := one[int](s, `select cursor from inboxd.lanes where aggregate_id = 'agg-1'`); n != 0 {
					t.Errorf("the cursor moved to %d, over an event that ended its transaction", n)
				}
				got := one[string](s, `select coalesce(error_message, state) from inboxd.lanes where aggregate_id = 'agg-1'`)
				if !strings.Contains(got, "ended the lane's transaction") {
					t.Errorf("the lane says %q", got)
				}
				if n := one[int](s, `select count(*) from effects where aggregate_id = 'agg-0'`); n != events {
					t.Errorf("%d effects of the other lane, want %d", n, events)
				}
			})
		}
	}
}

// What a queued handler leaves in its session does not meet the next event.
func TestQueuedStatementsLeaveNothingInTheSession(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 40)
	reg := handlers.New()
	handlers.OnQueue(reg, "Paid", func(_ context.Context, b *pgx.Batch, e handlers.Event[[]byte]) error {
		leaveBehind(b, e)
		return nil
	})
	s.run(reg, quick())
	s.nothingLocked()
	s.sessionsClean()
	s.inOrder(40)
}

// leaveBehind queues an event's effect with statements that outlive its transaction.
func leaveBehind(b *pgx.Batch, e handlers.Event[[]byte]) {
	b.Queue(`select pg_advisory_lock(4711 + $1)`, e.Position)
	b.Queue(`set search_path to nowhere`)
	b.Queue(`insert into public.effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Position)
}

// Nor does what is committed of a chain that fails later on, when another lane has
// the next turn in that session.
func TestChainThatFailsLeavesNothingInTheSession(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 40)
	var p atomic.Pointer[ordering.Processor]
	var failed atomic.Bool
	reg := sqlRegistry(t, "Plain") // which finds its table by the search path
	handlers.OnQueue(reg, "Paid", func(ctx context.Context, b *pgx.Batch, e handlers.Event[[]byte]) error {
		if e.ID == "Paid-0-20" && !failed.Swap(true) {
			if _, err := s.store.Put(ctx, []inbox.Event{{ID: "other", AggregateID: "other", Type: "Plain", Payload: []byte(`{}`)}}); err != nil {
				return err
			}
			counts(t, p.Load(), "the other lane", func(st ordering.Stats) bool { return st.Lanes == 2 })
			b.Queue(`select 1/0 + $1`, e.Position)
		}
		leaveBehind(b, e)
		return nil
	})
	cfg := seldom()
	cfg.Workers, cfg.Group, cfg.Batch = 1, 1, 4
	made, err := ordering.New(s.pool, reg, cfg)
	must(t, err)
	p.Store(made)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	s.done(41)
	stop()
	must(t, <-ended)
	s.nothingLocked()
	s.sessionsClean()
	if n := one[int](s, `select attempts from inboxd.events where event_id = 'other'`); n != 1 {
		t.Errorf("the other lane's event has %d attempts: it met what the chain had left", n)
	}
	if n := one[int](s, `select attempts from inboxd.events where event_id = 'Paid-0-20'`); n != 2 {
		t.Errorf("the event that failed once has %d attempts", n)
	}
}

// The commit of a chain's transaction begins the next one: each has the isolation,
// the time-outs and the settings of its own.
func TestChainedTransactionsAreSeparate(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`create table seen (n bigint generated always as identity, xid xid8, statement text, lock text, flush text)`)
	var events []inbox.Event
	for i := range 12 {
		events = append(events, inbox.Event{ID: fmt.Sprint("e-", i), AggregateID: "a", Type: "Paid", Payload: []byte(`{}`)})
	}
	_, err := s.store.Put(t.Context(), events)
	must(t, err)
	reg := handlers.New()
	handlers.OnQueue(reg, "Paid", func(_ context.Context, b *pgx.Batch, e handlers.Event[[]byte]) error {
		b.Queue(`insert into seen (xid, statement, lock, flush) select pg_current_xact_id(), current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('synchronous_commit')`)
		return nil
	})
	cfg := quick()
	cfg.Batch = 3
	cfg.HandlerTimeout = 7 * time.Second
	s.run(reg, cfg)
	if got := one[string](s, `select string_agg(distinct statement || ' ' || lock, ', ') from seen`); got != "7s 0" {
		t.Errorf("time-outs of statements and locks: %s; want 7s and 0 in each", got)
	}
	if got := one[int](s, `select count(distinct xid) from seen`); got < 4 {
		t.Errorf("12 events were run in %d transactions, though the batch is 3", got)
	}
	if got := one[string](s, `select flush from seen order by n desc limit 1`); got != "on" {
		t.Errorf("the last one committed with synchronous_commit = %s", got)
	}
	if got := one[int](s, `select count(*) from seen where flush = 'off'`); got == 0 {
		t.Error("all waited for the disk: there was no chain")
	}
	if got := one[int](s, `select count(distinct at) from inboxd.runs`); got != one[int](s, `select count(distinct xid) from seen`) {
		t.Errorf("the ledger has %d moments", got)
	}
}

// A row shows 32 bits of a transaction's number only.
func TestFateOfATransaction(t *testing.T) {
	t.Parallel()
	s := setup(t)
	fate := func(xid string) string {
		t.Helper()
		return one[string](s, `select inboxd.fate($1::text::xid)`, xid)
	}
	begun := func(c *session) (xid string) {
		t.Helper()
		c.begin()
		must(t, c.conn.QueryRow(context.Background(), `select pg_current_xact_id()::text::bigint::text`).Scan(&xid))
		return xid
	}
	a, b, c := s.session(1), s.session(2), s.session(3)
	running, rolledBack, done := begun(a), begun(b), begun(c)
	b.rollback()
	c.commit()
	for xid, want := range map[string]string{running: "in progress", rolledBack: "aborted", done: "committed", "3": "committed"} {
		if got := fate(xid); got != want {
			t.Errorf("transaction %s: %s, want %s", xid, got, want)
		}
	}
	a.rollback()
	// One that began after the snapshot was taken is under way, whatever its number.
	if got := one[string](s, `select inboxd.fate(((pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 5) & 4294967295)::text::xid)`); got != "in progress" {
		t.Errorf("a transaction of the future: %s", got)
	}
}
