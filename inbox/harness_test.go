package inbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// stage is a migrated database and a Store on it.
type stage struct {
	t     testing.TB
	url   string
	pool  *pgxpool.Pool
	store *inbox.Store
}

func setup(t testing.TB) *stage {
	t.Helper()
	return setupURL(t, pgtest.Database(t))
}

func setupURL(t testing.TB, url string) *stage {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	must(t, err)
	config.MaxConns = 12
	s := &stage{t: t, url: url, pool: pgtest.PoolConfig(t, config)}
	s.store = inbox.NewStore(s.pool, "")
	conn := s.connect()
	_, _, err = migrations.Up(t.Context(), conn, inbox.DefaultSchema)
	must(t, err)
	return s
}

// connect opens a session of its own, closed when the test ends.
func (s *stage) connect() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	must(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// begin opens a session of its own and a transaction in it, rolled back at the
// end of the test unless it ended before.
func (s *stage) begin() pgx.Tx {
	s.t.Helper()
	return s.beginTx(pgx.TxOptions{})
}

func (s *stage) beginTx(options pgx.TxOptions) pgx.Tx {
	s.t.Helper()
	tx, err := s.connect().BeginTx(s.t.Context(), options)
	must(s.t, err)
	return tx
}

func (s *stage) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), sql, args...)
	must(s.t, err)
}

func (s *stage) openSegment() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	_, err := s.pool.Exec(ctx, `select inboxd.open_segment()`)
	must(s.t, err)
}

// queryer is a pool, a connection or a transaction.
type queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// one reads a single value.
func one[T any](t testing.TB, db queryer, sql string, args ...any) T {
	t.Helper()
	var v T
	must(t, db.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// event makes an event with a payload that tells its id.
func event(id, aggregate string) inbox.Event {
	return inbox.Event{ID: id, AggregateID: aggregate, Type: "Paid", Payload: fmt.Appendf(nil, `{"id":%q}`, id)}
}

// events makes n events with ids prefix-0, prefix-1, … spread over aggregates.
func events(prefix string, n, aggregates int) []inbox.Event {
	all := make([]inbox.Event, n)
	for i := range all {
		all[i] = event(fmt.Sprintf("%s-%d", prefix, i), fmt.Sprintf("agg-%d", i%aggregates))
	}
	return all
}

// reversed is a copy in the opposite order.
func reversed(all []inbox.Event) []inbox.Event {
	all = slices.Clone(all)
	slices.Reverse(all)
	return all
}

// put stores events and answers one letter an event.
func (s *stage) put(all ...inbox.Event) string {
	s.t.Helper()
	outcomes, err := s.store.Put(s.t.Context(), all)
	must(s.t, err)
	return letters(outcomes)
}

// add stages events in tx and answers one letter an event.
func (s *stage) add(tx pgx.Tx, all ...inbox.Event) string {
	s.t.Helper()
	outcomes, err := s.store.Add(s.t.Context(), tx, all...)
	must(s.t, err)
	return letters(outcomes)
}

func letters(outcomes []inbox.Outcome) string {
	b := make([]byte, len(outcomes))
	for i, o := range outcomes {
		b[i] = byte(o)
	}
	return string(b)
}

// lane lists an aggregate's events as position:id, in order.
func (s *stage) lane(aggregate string) string {
	s.t.Helper()
	return one[string](s.t, s.pool, `select coalesce(string_agg(position || ':' || event_id, ' ' order by position), '')
		from inboxd.inbox where aggregate_id = $1`, aggregate)
}

// whole fails the test unless the inbox holds n events, none twice, with dense
// positions that the aggregates' rows agree with.
func (s *stage) whole(n int) {
	s.t.Helper()
	if got := one[int](s.t, s.pool, `select count(*) from inboxd.inbox`); got != n {
		s.t.Errorf("%d events are stored, want %d", got, n)
	}
	if got := one[int](s.t, s.pool, `select count(*) from (
		select event_id from inboxd.inbox group by 1 having count(*) > 1) d`); got != 0 {
		s.t.Errorf("%d events are stored more than once", got)
	}
	if got := one[int](s.t, s.pool, `select count(*) from inboxd.aggregates a
		full join (select lane_id, count(*) as n, min(position) as first, max(position) as last
			from inboxd.inbox group by 1) i on i.lane_id = a.lane_id
		where coalesce(i.n, 0) is distinct from a.last_position or i.first <> 1 or i.last <> i.n`); got != 0 {
		s.t.Errorf("%d lanes have a gap, or a last position that is not their events'", got)
	}
	if got := one[int](s.t, s.pool, `select count(*) from inboxd.aggregates a
		full join inboxd.lanes l on l.lane_id = a.lane_id and l.aggregate_id = a.aggregate_id
		where a.lane_id is null or l.lane_id is null`); got != 0 {
		s.t.Errorf("%d aggregates have no lane of theirs, or the other way round", got)
	}
}

// until waits for a condition in the database.
func (s *stage) until(sql string, args ...any) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !one[bool](s.t, s.pool, sql, args...) {
		select {
		case <-deadline:
			s.t.Fatalf("never came true: %s", sql)
		case <-tick.C:
		}
	}
}

// pid is the server's process of a session.
func pid(conn *pgx.Conn) uint32 { return conn.PgConn().PID() }

// untilBlocked waits until a session waits for a lock that blocker holds, or
// stands in the queue behind it.
func (s *stage) untilBlocked(waiting, blocker *pgx.Conn) {
	s.t.Helper()
	s.until(`select $2::int = any(pg_blocking_pids($1::int))`, pid(waiting), pid(blocker))
}

// on is a Store on one session.
func (s *stage) on(conn *pgx.Conn) *inbox.Store { return inbox.NewStore(conn, "") }

// result is what became of a call that runs beside the test.
type result struct {
	outcomes string
	err      error
}

// putBeside stores on a session of its own while the test goes on.
func (s *stage) putBeside(conn *pgx.Conn, all ...inbox.Event) <-chan result {
	done := make(chan result, 1)
	go func() {
		outcomes, err := s.on(conn).Put(context.WithoutCancel(s.t.Context()), all)
		done <- result{letters(outcomes), err}
	}()
	return done
}

// soon takes a result that must come without anybody's help.
func soon[T any](t testing.TB, done <-chan T) T {
	t.Helper()
	select {
	case v := <-done:
		return v
	case <-time.After(20 * time.Second):
		t.Fatal("still waiting after 20 s")
		panic("unreachable")
	}
}
