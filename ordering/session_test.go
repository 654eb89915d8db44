package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// session takes the steps of a processor one by one, in a session of its own, so
// that a test can stop it between two of them and let another one go on.
type session struct {
	t    testing.TB
	s    *stage
	id   int // of the process that it plays
	conn *pgx.Conn
}

func (s *stage) session(id int) *session {
	s.t.Helper()
	config, err := pgx.ParseConfig(s.url)
	must(s.t, err)
	config.RuntimeParams["statement_timeout"] = "25s" // a test that waits for ever says where
	conn, err := pgx.ConnectConfig(context.Background(), config)
	must(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return &session{s.t, s, id, conn}
}

func (c *session) try(sql string, args ...any) error {
	_, err := c.conn.Exec(context.Background(), sql, args...)
	return err
}

func (c *session) exec(sql string, args ...any) {
	c.t.Helper()
	if err := c.try(sql, args...); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
}

// loaded is what a processor knows of a lane after load.
type loaded struct {
	lane, cursor int64
	version      int32
	runnable     bool
	attempts     int
	crashes      int
	traced       bool
	parked       bool
	events       int
}

const oneLaneSQL = `
select lane_id, cursor, version, runnable, attempts, crashes, traced, parked, count(position)
from inboxd.load(array[$1::bigint], 100, 8192) group by 1, 2, 3, 4, 5, 6, 7, 8`

func (c *session) load(lane int64) loaded {
	c.t.Helper()
	l, err := c.tryLoad(lane)
	must(c.t, err)
	return l
}

func (c *session) tryLoad(lane int64) (l loaded, err error) {
	err = c.conn.QueryRow(context.Background(), oneLaneSQL, lane).Scan(
		&l.lane, &l.cursor, &l.version, &l.runnable, &l.attempts, &l.crashes, &l.traced, &l.parked, &l.events)
	return l, err
}

func (c *session) claim(lanes ...loaded) error {
	var ids, cursors []int64
	var versions []int32
	for _, l := range lanes {
		ids, cursors, versions = append(ids, l.lane), append(cursors, l.cursor), append(versions, l.version)
	}
	return c.try(`select inboxd.claim($1, $2, $3, $4, 25000, 0, 0)`, c.id, ids, cursors, versions)
}

// advance does the next n events of a claimed lane as a processor does.
func (c *session) advance(l loaded, n int64) error {
	err := c.try(`insert into effects (aggregate_id, event_id, position)
		select aggregate_id, event_id, position from inboxd.inbox
		where lane_id = $1 and position > $2 and position <= $2 + $3 order by position`, l.lane, l.cursor, n)
	if err != nil {
		return err
	}
	if l.crashes > 0 {
		if err := c.endCareful(nil, l); err != nil {
			return err
		}
	}
	unpark := []int64{}
	if l.parked {
		unpark = append(unpark, l.lane)
	}
	return c.try(`select inboxd.advance($1, array[$2::bigint], array[$3::bigint + 1], array[$3::bigint + $4],
		array(select segment from inboxd.inbox where lane_id = $2 and position = $3::bigint + $4), $5, true)`, c.id, l.lane, l.cursor, n, unpark)
}

// take claims lanes and has their next event done first, as a processor does when it
// knows all that follows; work is what follows.
func (c *session) take(lanes ...loaded) error {
	if len(lanes) == 1 {
		l := lanes[0]
		return c.try(`select inboxd.take($1, $2, $3, $4, $3::bigint + 1,
			(select segment from inboxd.inbox where lane_id = $2 and position = $3::bigint + 1), 25000, 0, 0, true)`,
			c.id, l.lane, l.cursor, l.version)
	}
	var ids, cursors []int64
	var versions []int32
	for _, l := range lanes {
		ids, cursors, versions = append(ids, l.lane), append(cursors, l.cursor), append(versions, l.version)
	}
	return c.try(`select inboxd.take_group($1, $2, $3, $4,
		array(select u.cursor + 1 from unnest($3::bigint[]) with ordinality u(cursor, n) order by n),
		array(select 1 from unnest($2::bigint[])), 25000, 100, 0)`, c.id, ids, cursors, versions)
}

// work is a taken lane's effect.
func (c *session) work(l loaded) error {
	return c.try(`insert into effects (aggregate_id, event_id, position)
		select aggregate_id, event_id, position from inboxd.inbox where lane_id = $1 and position = $2 + 1`, l.lane, l.cursor)
}

// beginTake begins a turn of the lanes, their cursors first.
func (c *session) beginTake(lanes ...loaded) {
	c.t.Helper()
	c.begin()
	must(c.t, c.take(lanes...))
}

// beginCareful counts an attempt beforehand and answers the lane as it is then.
func (c *session) beginCareful(l loaded) (loaded, bool) {
	c.t.Helper()
	var used *int
	must(c.t, c.conn.QueryRow(context.Background(), `select used from inboxd.begin_careful($1, $2, $3, $4, 16)`, c.id, l.lane, l.cursor, l.version).Scan(&used))
	if used == nil {
		return l, false
	}
	l.version++ // as it was committed, whatever others do to the lane meanwhile
	l.crashes = *used - l.attempts
	return l, true
}

// takeBack takes back what this process counted beforehand.
func (c *session) takeBack(l loaded) error { return c.endCareful(&c.id, l) }

// endCareful takes back what a process counted, or all processes.
func (c *session) endCareful(process *int, l loaded) error {
	return c.try(`select inboxd.end_careful($1, $2, $3)`, process, l.lane, l.cursor)
}

// giveUp gives up a head whose attempts are used up by processes that died.
func (c *session) giveUp(l loaded) error {
	return c.try(`select inboxd.give_up($2, $3, 'died', 'died') where $1::integer is not null`, c.id, l.lane, l.cursor)
}

func (c *session) fail(l loaded, after *time.Duration) error {
	return c.try(`select inboxd.fail($1, $2, $3, true, $4, 'no', 'no', null)`, c.id, l.lane, l.cursor, after)
}

// settled is what settle answers.
type settled struct{ runnable, held, idle []int64 }

func (c *session) settle(lanes ...int64) settled {
	c.t.Helper()
	var s settled
	must(c.t, c.conn.QueryRow(context.Background(), `select runnable, held, idle from inboxd.settle($1)`, lanes).
		Scan(&s.runnable, &s.held, &s.idle))
	return s
}

func (c *session) begin()    { c.t.Helper(); c.exec(`begin`) }
func (c *session) commit()   { c.t.Helper(); c.exec(`commit`) }
func (c *session) rollback() { c.t.Helper(); c.exec(`rollback`) }

// beginClaim begins a turn of the lanes.
func (c *session) beginClaim(lanes ...loaded) {
	c.t.Helper()
	c.begin()
	must(c.t, c.claim(lanes...))
}

// dies closes the session's connection in the middle of what it does, and waits
// until the server has noticed.
func (c *session) dies() {
	c.t.Helper()
	must(c.t, c.conn.PgConn().Conn().Close())
	c.s.until(`select not exists (select from pg_stat_activity where pid = $1)`, int(c.conn.PgConn().PID()))
}

// waiting runs f beside the test and answers when its session waits for a lock;
// the channel then has f's error.
func (c *session) waiting(f func() error) <-chan error {
	c.t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	pid := int(c.conn.PgConn().PID())
	c.s.until(`select cardinality(pg_blocking_pids($1)) > 0`, pid)
	return done
}

// moved fails the test unless the error says that the lane is not as it was.
func moved(t testing.TB, err error) {
	t.Helper()
	if state(err) != "IBX01" {
		t.Errorf("got %v, want IBX01: lane moved", err)
	}
}

func state(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return fmt.Sprint(err)
}

func in(d time.Duration) *time.Duration { return &d }

// lane reads one lane's row and that of ingest's side.
func (s *stage) lane(lane int64) (state string, pending, parked bool) {
	s.t.Helper()
	must(s.t, s.pool.QueryRow(context.Background(), `select l.state, a.pending, a.parked
		from inboxd.lanes l join inboxd.aggregates a using (lane_id) where lane_id = $1`, lane).Scan(&state, &pending, &parked))
	return state, pending, parked
}

// finds fails the test unless the sweep, or the sweep of what is due, brings the
// lane to a processor that knows nothing of it.
func (s *stage) findable(lane int64) {
	s.t.Helper()
	if !one[bool](s, `select $1::bigint in (select * from inboxd.sweep(0, 0, 1, 1000))
		or exists (select from inboxd.lanes where lane_id = $1 and state = 'backoff' and next_attempt_at is not null)`, lane) {
		state, pending, parked := s.lane(lane)
		s.t.Errorf("no sweep finds lane %d: %s, pending %v, parked %v", lane, state, pending, parked)
	}
}

func detail(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Detail
	}
	return ""
}
