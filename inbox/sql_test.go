package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	"github.com/inboxd/inboxd/inbox"
)

// drivers are ways to reach PostgreSQL through database/sql: the driver's name and
// what is added to the URL.
var drivers = map[string]struct{ driver, option, value string }{
	"pgx":               {"pgx", "", ""},
	"pgx without cache": {"pgx", "default_query_exec_mode", "exec"},
	"pgx simple":        {"pgx", "default_query_exec_mode", "simple_protocol"},
	"pq":                {"postgres", "sslmode", "disable"},
}

// openSQL opens the database through a driver of drivers.
func (s *stage) openSQL(name string) *sql.DB {
	s.t.Helper()
	d := drivers[name]
	u, err := url.Parse(s.url)
	must(s.t, err)
	if q := u.Query(); d.option != "" {
		q.Set(d.option, d.value)
		u.RawQuery = q.Encode()
	}
	db, err := sql.Open(d.driver, u.String())
	must(s.t, err)
	s.t.Cleanup(func() { must(s.t, db.Close()) })
	return db
}

// eachDriver runs a test with every driver.
func eachDriver(t *testing.T, run func(s *stage, db *sql.DB)) {
	for name := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			run(s, s.openSQL(name))
		})
	}
}

func (s *stage) beginSQL(db *sql.DB) *sql.Tx {
	s.t.Helper()
	tx, err := db.BeginTx(s.t.Context(), nil)
	must(s.t, err)
	s.t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// addSQL stages events in tx and answers one letter an event.
func (s *stage) addSQL(tx inbox.SQLTx, all ...inbox.Event) string {
	s.t.Helper()
	outcomes, err := s.store.AddSQL(s.t.Context(), tx, all...)
	must(s.t, err)
	return letters(outcomes)
}

// hostile are events with all that an array's notation could get wrong.
func hostile() []inbox.Event {
	sequence := int64(-4)
	return []inbox.Event{
		{ID: `a"b\c{d},e 'f' null`, AggregateID: "NULL", Type: "  é\u2028\t\n", Sequence: &sequence,
			Payload: []byte("\x00\xff\\x00\"{},'"), OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)),
			Headers: []inbox.Header{{Name: `n"{},\`, Value: []byte("\x00")}, {Name: "'", Value: []byte(`\u0000"`)}, {Name: "nil"}}},
		{ID: "empty", AggregateID: "NULL", Type: "{}"},
		{ID: "old", AggregateID: "a", Type: "Paid", OccurredAt: time.Date(-44, 3, 15, 12, 0, 0, 0, time.UTC)},
		{ID: "far", AggregateID: "a", Type: "Paid", OccurredAt: time.Date(12026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
}

// What is added through any driver is what Put stores, byte for byte.
func TestAddSQLStoresAsPutDoes(t *testing.T) {
	t.Parallel()
	const row = `select string_agg(concat_ws('|', event_id, aggregate_id, event_type, sequence, position, encode(payload, 'hex'), headers,
		case when occurred_at <> received_at then extract(epoch from occurred_at) end), E'\n' order by event_id) from inboxd.inbox`
	reference := setup(t)
	reference.put(hostile()...)
	want := one[string](t, reference.pool, row)
	eachDriver(t, func(s *stage, db *sql.DB) {
		listener := s.listen()
		tx := s.beginSQL(db)
		if got := s.addSQL(tx, hostile()...); got != "ssss" {
			t.Errorf("outcomes %s", got)
		}
		s.whole(0)
		must(s.t, tx.Commit())
		s.whole(4)
		if got := one[string](s.t, s.pool, row); got != want {
			s.t.Errorf("stored as\n%s\nwant\n%s", got, want)
		}
		if got := listener.next(); len(strings.Split(got, ",")) != 2 {
			s.t.Errorf("notified of %q at the commit, want two lanes", got)
		}
	})
}

func TestAddSQLOutcomes(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(s *stage, db *sql.DB) {
		s.put(event("stored", "a"))
		undone := s.beginSQL(db)
		s.addSQL(undone, event("undone", "a"))
		must(s.t, undone.Rollback())
		tx := s.beginSQL(db)
		if got := s.addSQL(tx); got != "" {
			s.t.Errorf("outcomes %q of nothing", got)
		}
		other := inbox.Event{ID: "stored", AggregateID: "a", Type: "Paid"}
		if got := s.addSQL(tx, event("stored", "a"), event("n1", "a"), other, event("n1", "a"), event("n1", "b")); got != "dscdc" {
			s.t.Errorf("outcomes %s", got)
		}
		if got := s.addSQL(tx, event("n1", "a"), event("n2", "a")); got != "ds" {
			s.t.Errorf("outcomes %s", got)
		}
		must(s.t, tx.Commit())
		s.whole(3)
		if got := s.lane("a"); got != "1:stored 2:n1 3:n2" {
			s.t.Errorf("the lane is %s", got)
		}
		if _, err := s.store.AddSQL(s.t.Context(), tx, event("late", "a")); !errors.Is(err, sql.ErrTxDone) {
			s.t.Errorf("in a transaction that has ended: %v", err)
		}
	})
}

// What has QueryRowContext and is no transaction is told apart from one.
func TestAddSQLOutsideATransaction(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(s *stage, db *sql.DB) {
		conn, err := db.Conn(s.t.Context())
		must(s.t, err)
		defer func() { must(s.t, conn.Close()) }()
		for name, tx := range map[string]inbox.SQLTx{"DB": db, "Conn": conn, "wrapped DB": struct{ *sql.DB }{db},
			"nil": nil, "nil Tx": (*sql.Tx)(nil)} {
			_, addErr := s.store.AddSQL(s.t.Context(), tx, event(name, "a"))
			_, claimErr := s.store.ClaimSQL(s.t.Context(), tx, "c", name)
			for _, err := range []error{addErr, claimErr} {
				if !errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), "transaction") {
					s.t.Errorf("%s: %v", name, err)
				}
			}
		}
		s.whole(0)
		s.claims("")
		exec := func(sql string) {
			_, err := conn.ExecContext(context.WithoutCancel(s.t.Context()), sql)
			must(s.t, err)
		}
		exec("begin")
		first, err := s.store.ClaimSQL(s.t.Context(), conn, "c", "by hand")
		if got := s.addSQL(conn, event("by hand", "a")); got != "s" || !first || err != nil {
			s.t.Errorf("outcomes %s, first %v, %v", got, first, err)
		}
		exec("commit")
		wrapped := struct{ *sql.Tx }{s.beginSQL(db)}
		s.addSQL(wrapped, event("wrapped", "a"))
		must(s.t, wrapped.Commit())
		s.whole(2)
		s.claims("c:by hand")
	})
}

func TestAddSQLAndPutOfTheSameID(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(s *stage, db *sql.DB) {
		tx := s.beginSQL(db)
		s.addSQL(tx, event("before", "a"), event("x", "a"))
		s.put(event("x", "b"))
		must(s.t, tx.Commit())
		s.whole(2)
	})
}

// Adding to a transaction costs the same behind thousands of events that were
// added to it.
func TestAddDoesNotGrowWithWhatIsStaged(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`alter table inboxd.staged set (autovacuum_enabled = off)`)
	tx := s.begin()
	const call = `select inboxd.stage(array[$1], array['a'], array['Paid'], null, array['x'::bytea], null, null)`
	costs := map[int]cost{}
	for _, n := range []int{0, 20, 4000} {
		if n > 0 {
			s.add(tx, events(fmt.Sprint("staged ", n), n, 10)...)
		}
		for i := range 7 { // the sixth plan is the one that is kept
			costs[n] = measureIn(t, tx, call, fmt.Sprint("one ", n, "-", i))
		}
		t.Logf("%+v behind %d", costs[n], n)
	}
	if got := costs[4000]; got.tuples > costs[20].tuples+10 || got.buffers > costs[20].buffers+30 {
		t.Errorf("adding one event costs %+v behind 4000, and %+v behind 20", got, costs[20])
	}
}
