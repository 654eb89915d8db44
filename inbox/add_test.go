package inbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/fault"
)

func TestAddStoresWithTheCallersTransaction(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`create table orders (id int)`)
	listener := s.listen()
	tx := s.begin()
	_, err := tx.Exec(t.Context(), `insert into orders values (1)`)
	must(t, err)
	sequence := int64(4)
	full := inbox.Event{ID: "full", AggregateID: "a", Type: "Paid", Sequence: &sequence,
		Payload: []byte("\x00\xff"), Headers: []inbox.Header{{Name: "n", Value: []byte("\x00")}}}
	if got := s.add(tx, full, event("second", "b")); got != "ss" {
		t.Errorf("outcomes %s", got)
	}
	s.whole(0)
	must(t, tx.Commit(t.Context()))
	s.whole(2)
	if got := one[string](t, s.pool, `select concat_ws(' ', event_type, sequence, encode(payload, 'hex'), headers, occurred_at = received_at, source_topic is null)
		from inboxd.inbox where event_id = 'full'`); got != `Paid 4 00ff [["n", {"base64": "AA=="}]] t t` {
		t.Errorf("stored as %s", got)
	}
	if got := listener.next(); len(strings.Split(got, ",")) != 2 {
		t.Errorf("notified of %q at the commit, want two lanes", got)
	}
	if got := one[int](t, s.pool, `select count(*) from inboxd.staged`); got != 0 {
		t.Errorf("%d events are still staged", got)
	}
}

func TestAddNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	tx := s.begin()
	if got := s.add(tx); got != "" {
		t.Errorf("outcomes %q", got)
	}
	must(t, tx.Commit(t.Context()))
}

func TestAddOutcomes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("stored", "a"))
	tx := s.begin()
	other := inbox.Event{ID: "stored", AggregateID: "a", Type: "Paid"}
	for _, test := range []struct {
		batch []inbox.Event
		want  string
	}{
		{[]inbox.Event{event("stored", "a"), event("n1", "a"), other, event("stored", "b")}, "dscc"},
		{[]inbox.Event{event("n2", "a"), event("n2", "a"), event("n1", "a"), event("n2", "b"), event("n3", "a")}, "sddcs"},
		{[]inbox.Event{event("n1", "b"), event("n1", "a")}, "cd"},
	} {
		if got := s.add(tx, test.batch...); got != test.want {
			t.Errorf("outcomes %s, want %s", got, test.want)
		}
	}
	must(t, tx.Commit(t.Context()))
	s.whole(4)
	if got := s.lane("a"); got != "1:stored 2:n1 3:n2 4:n3" {
		t.Errorf("the lane is %s", got)
	}
}

func TestAddAndSavepoints(t *testing.T) {
	t.Parallel()
	s := setup(t)
	tx := s.begin()
	s.add(tx, event("kept", "a"))
	inner, err := tx.Begin(t.Context())
	must(t, err)
	s.add(inner, event("undone", "a"), event("again", "a"))
	must(t, inner.Rollback(t.Context()))
	if got := s.add(tx, event("again", "a"), event("kept", "a")); got != "sd" {
		t.Errorf("outcomes %s", got)
	}
	must(t, tx.Commit(t.Context()))
	s.whole(2)
	if got := s.lane("a"); got != "1:kept 2:again" {
		t.Errorf("the lane is %s", got)
	}
}

// A caller may have constraints checked at once: events are stored at once then.
func TestAddWithImmediateConstraints(t *testing.T) {
	t.Parallel()
	s := setup(t)
	tx := s.begin()
	s.add(tx, event("e1", "a"), event("e2", "a"))
	_, err := tx.Exec(t.Context(), `set constraints all immediate`)
	must(t, err)
	s.add(tx, event("e3", "a"), event("e1", "a"))
	inner, err := tx.Begin(t.Context())
	must(t, err)
	s.add(inner, event("undone", "a"))
	must(t, inner.Rollback(t.Context()))
	s.add(tx, event("e4", "a"))
	_, err = tx.Exec(t.Context(), `set constraints all deferred`)
	must(t, err)
	s.add(tx, event("e5", "a"))
	must(t, tx.Commit(t.Context()))
	s.whole(5)
	if got := s.lane("a"); got != "1:e1 2:e2 3:e3 4:e4 5:e5" {
		t.Errorf("the lane is %s", got)
	}
}

// Events staged one by one, and a second transaction after the first in the same
// session.
func TestAddManyTimesInOneTransaction(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const n = 400
	for range 2 {
		tx := s.begin()
		for i := range n {
			e := event(fmt.Sprintf("%d-%p", i, tx), fmt.Sprintf("agg-%d", i%10))
			if got := s.add(tx, e); got != "s" {
				t.Fatalf("outcome %s", got)
			}
		}
		must(t, tx.Commit(t.Context()))
	}
	s.whole(2 * n)
}

// isolations stricter than inboxd's own, in which a snapshot is older than the
// locks that are taken later.
var isolations = []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable}

func TestAddUnderStricterIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range isolations {
		for name, test := range map[string]struct {
			meanwhile func(*stage)
			commits   bool
			lane      string
		}{
			"nothing happens":                {func(*stage) {}, true, "1:old 2:x"},
			"another aggregate":              {func(s *stage) { s.put(event("y", "b")) }, true, "1:old 2:x"},
			"the same aggregate":             {func(s *stage) { s.put(event("y", "a")) }, false, "1:old 2:y"},
			"the same event":                 {func(s *stage) { s.put(event("x", "a")) }, false, "1:old 2:x"},
			"the same id, another aggregate": {func(s *stage) { s.put(event("x", "b")) }, false, "1:old"},
			"a new segment":                  {func(s *stage) { s.openSegment() }, false, "1:old"},
			"the same id in a new segment": {func(s *stage) {
				s.openSegment()
				s.put(event("x", "b"))
			}, false, "1:old"},
		} {
			t.Run(string(level)+"/"+name, func(t *testing.T) {
				t.Parallel()
				s := setup(t)
				s.put(event("old", "a"), event("old b", "b"))
				tx := s.beginTx(pgx.TxOptions{IsoLevel: level})
				s.add(tx, event("x", "a"))
				test.meanwhile(s)
				err := tx.Commit(t.Context())
				if test.commits != (err == nil) || err != nil && fault.Of(err) != fault.Conflict {
					t.Errorf("commit: %v", err)
				}
				if got := s.lane("a"); got != test.lane {
					t.Errorf("the lane is %s, want %s", got, test.lane)
				}
				s.whole(one[int](t, s.pool, `select count(distinct event_id) from inboxd.inbox`))
			})
		}
	}
}

// The pool of a team may come with another isolation level.
func TestPutUnderStricterIsolation(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, level := range isolations {
		conn := s.connect()
		_, err := conn.Exec(t.Context(), `set default_transaction_isolation = '`+string(level)+`'`)
		must(t, err)
		s.put(event("first "+string(level), "a"))
		holder := s.begin()
		_, err = inbox.NewStore(holder, "").Put(t.Context(), []inbox.Event{event("held "+string(level), "a")})
		must(t, err)
		done := s.putBeside(conn, event("held "+string(level), "a"), event("new "+string(level), "a"))
		s.untilBlocked(conn, holder.Conn())
		must(t, holder.Commit(t.Context()))
		if got := soon(t, done); got.err != nil || got.outcomes != "ds" {
			t.Errorf("%s: %s, %v", level, got.outcomes, got.err)
		}
	}
	s.whole(6)
}

// Trap 13: an Add in a transaction that stays open holds up nobody who stores
// events of the same aggregate.
func TestTrap13LongAddHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("old", "a"))
	long := s.begin()
	s.add(long, event("added", "a"), event("added new", "new"))
	for i, aggregate := range []string{"a", "new"} {
		if got := soon(t, s.putBeside(s.connect(), event(fmt.Sprint("put-", i), aggregate))); got.err != nil || got.outcomes != "s" {
			t.Fatalf("Put while an Add is open: %s, %v", got.outcomes, got.err)
		}
	}
	short := s.begin()
	s.add(short, event("added short", "a"))
	must(t, short.Commit(t.Context()))
	s.openSegment()
	must(t, long.Commit(t.Context()))
	s.whole(6)
	if got := s.lane("a"); got != "1:old 2:put-0 3:added short 4:added" {
		t.Errorf("the lane is %s", got)
	}
}

// Trap 13: two transactions add to each other's aggregates, the other way round.
func TestTrap13AddsInOppositeOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("old a", "a"), event("old b", "b"))
	for round := range 10 {
		one, two := s.begin(), s.begin()
		id := func(n string) string { return fmt.Sprintf("%s-%d", n, round) }
		s.add(one, event(id("1a"), "a"))
		s.add(two, event(id("2b"), "b"))
		s.add(one, event(id("1b"), "b"), event(id("1new"), id("new")))
		s.add(two, event(id("2a"), "a"), event(id("2new"), id("new")))
		committed := make(chan error, 2)
		for _, tx := range []pgx.Tx{one, two} {
			go func() { committed <- tx.Commit(context.WithoutCancel(t.Context())) }()
		}
		must(t, soon(t, committed))
		must(t, soon(t, committed))
	}
	s.whole(2 + 6*10)
}

// Trap 13: placing at the commit waits for another's commit, and no longer.
func TestTrap13AddWaitsOnlyForCommits(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("old", "a"))
	storing := s.begin()
	_, err := inbox.NewStore(storing, "").Put(t.Context(), []inbox.Event{event("first", "a")})
	must(t, err)
	tx := s.begin()
	s.add(tx, event("second", "a"))
	committed := make(chan error, 1)
	go func() { committed <- tx.Commit(context.WithoutCancel(t.Context())) }()
	s.untilBlocked(tx.Conn(), storing.Conn())
	must(t, storing.Commit(t.Context()))
	must(t, soon(t, committed))
	if got := s.lane("a"); got != "1:old 2:first 3:second" {
		t.Errorf("the lane is %s", got)
	}
}

func TestTrap13RolledBackAddLeavesNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	tx := s.begin()
	s.add(tx, event("undone", "a"))
	must(t, tx.Rollback(t.Context()))
	s.whole(0)
	for _, table := range []string{"staged", "aggregates", "lanes"} {
		if got := one[int](t, s.pool, `select count(*) from inboxd.`+table); got != 0 {
			t.Errorf("%d rows in %s", got, table)
		}
	}
	if got := s.put(event("undone", "a")); got != "s" {
		t.Errorf("outcome %s afterwards", got)
	}
}

func TestTrap13AddsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	tx := s.begin()
	s.add(tx, event("z", "a"), event("1", "b"), event("y", "a"))
	s.add(tx, event("x", "a"))
	s.add(tx, event("0", "b"), event("w", "a"))
	must(t, tx.Commit(t.Context()))
	if a, b := s.lane("a"), s.lane("b"); a != "1:z 2:y 3:x 4:w" || b != "1:1 2:0" {
		t.Errorf("the lanes are %s and %s", a, b)
	}
}

// Trap 13: who commits first has stored the event; with the other it is dropped
// as the duplicate it is by then, and the rest of its transaction commits.
func TestTrap13AddAndPutOfTheSameID(t *testing.T) {
	t.Parallel()
	for name, aggregate := range map[string]string{"same aggregate": "a", "another aggregate": "b", "new aggregate": "new"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.put(event("old a", "a"), event("old b", "b"))
			tx := s.begin()
			if got := s.add(tx, event("before", "a"), event("x", "a"), event("after", "a")); got != "sss" {
				t.Errorf("outcomes %s", got)
			}
			storing := s.begin()
			_, err := inbox.NewStore(storing, "").Put(t.Context(), []inbox.Event{event("x", aggregate)})
			must(t, err)
			committed := make(chan error, 1)
			go func() { committed <- tx.Commit(context.WithoutCancel(t.Context())) }()
			s.untilBlocked(tx.Conn(), storing.Conn())
			must(t, storing.Commit(t.Context()))
			must(t, soon(t, committed))
			s.whole(5)
			if got := one[string](t, s.pool, `select aggregate_id from inboxd.inbox where event_id = 'x'`); got != aggregate {
				t.Errorf("x is stored for %s", got)
			}
		})
	}
}

func TestTrap13TwoAddsOfTheSameID(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for round := range 10 {
		id := fmt.Sprint("x-", round)
		one, two := s.begin(), s.begin()
		s.add(one, event(id, "a"), event(id+"-one", "a"))
		s.add(two, event(id, "b"), event(id+"-two", "b"))
		committed := make(chan error, 2)
		for _, tx := range []pgx.Tx{one, two} {
			go func() { committed <- tx.Commit(context.WithoutCancel(t.Context())) }()
		}
		must(t, soon(t, committed))
		must(t, soon(t, committed))
	}
	s.whole(30)
}
