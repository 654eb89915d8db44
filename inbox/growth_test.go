package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
)

// pendingVariable says how many events are pending in TestStepsDoNotGrow.
const pendingVariable = "INBOXD_TEST_PENDING"

const (
	defaultPending = 200_000
	eventsPerLane  = 20
	stuckLanes     = 10_000
)

// warehouse fills the tables behind everybody's back: stuck lanes in front, then
// busy ones with eventsPerLane pending events each.
var warehouse = []string{
	`insert into inboxd.aggregates (aggregate_id, last_position, parked)
	 select 'stuck-' || n, 1, true from generate_series(1, $2::int) n where $1::int > 0`,
	`insert into inboxd.aggregates (aggregate_id, last_position)
	 select 'busy-' || n, $2::int from generate_series(1, $1::int / $2::int) n`,
	`insert into inboxd.lanes (lane_id, aggregate_id, segment, state, error_message, error_fingerprint, error_at)
	 select lane_id, aggregate_id, 1, case when parked then 'stuck' else 'ready' end,
		'no', case when parked then 'f' || lane_id % $2::int end, now()
	 from inboxd.aggregates where lane_id > $1::int`,
	`insert into inboxd.inbox (lane_id, position, received_at, occurred_at, segment, event_id, aggregate_id, event_type, payload)
	 select a.lane_id, p, now(), now(), $1::int, 'bulk-' || a.aggregate_id || '-' || p, a.aggregate_id, 'Paid', '{"amount":1}'
	 from inboxd.aggregates a, generate_series(1, least($2::int, a.last_position)) p where a.aggregate_id ~ '^(stuck|busy)'`,
}

func (s *stage) fill(pending int) {
	s.t.Helper()
	last := one[int](s.t, s.pool, `select coalesce(max(lane_id), 0) from inboxd.aggregates`)
	for i, args := range [][2]int{{pending, stuckLanes}, {pending, eventsPerLane}, {last, 3}, {1, eventsPerLane}} {
		s.exec(warehouse[i], args[0], args[1])
	}
}

// cost is what a call did in the database, all its statements together.
type cost struct {
	buffers int // pages looked at
	tuples  int // rows and index entries that scans returned
}

const touched = `select coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid)), 0)
	from pg_class c where c.relnamespace = 'inboxd'::regnamespace`

// measure runs a call in a transaction that it rolls back.
func measure(t testing.TB, conn *pgx.Conn, sql string, args ...any) cost {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	return measureIn(t, tx, sql, args...)
}

func measureIn(t testing.TB, tx pgx.Tx, sql string, args ...any) cost {
	t.Helper()
	before := one[int](t, tx, touched)
	var plan []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	text := one[string](t, tx, `explain (analyze, buffers, timing off, summary off, format json) `+sql, args...)
	must(t, json.Unmarshal([]byte(text), &plan))
	return cost{plan[0].Plan.Hit + plan[0].Plan.Read, one[int](t, tx, touched) - before}
}

// step is one of the functions that ingest and lanes run all the time.
type step struct {
	name   string
	call   string
	tuples int // at most, for any size of the tables
}

// batch100 makes the arrays of a hundred events for a hundred lanes.
const batch100 = `(select array_agg('%[1]s-' || n) from generate_series(1, 100) n)`

func storeCall(aggregate, id string) string {
	return fmt.Sprintf(`select * from inboxd.store((select array_agg(name order by name collate "C")
			from (select '%[1]s-' || n as name from generate_series(1, 100) n) names),
		(select array_agg(n) from generate_series(1, 100) n), (select array_agg(1) from generate_series(1, 100)),
		`+batch100+`, array_fill('Paid'::text, array[100]), null,
		array_fill('x'::bytea, array[100]), null, null, null, null, null, null)`, aggregate, id)
}

func stageCall(aggregate, id string) string {
	return fmt.Sprintf(`select * from inboxd.stage(`+batch100+`, (select array_agg('%[2]s-' || n) from generate_series(1, 100) n),
		array_fill('Paid'::text, array[100]), null, array_fill('x'::bytea, array[100]), null, null)`, id, aggregate)
}

// A hundred events cost some ten index entries each; a scan of the smallest
// table would be ten thousand rows.
var steps = []step{
	{"store", storeCall("busy", "fresh"), 1500},
	{"store for new aggregates", storeCall("fresh", "fresh"), 1500},
	{"store duplicates", storeCall("busy", "bulk-busy-1"), 3000},
	{"stage", stageCall("busy", "fresh"), 1000},
	{"stage duplicates", stageCall("busy", "bulk-busy-1"), 2000},
	{"load", `select * from inboxd.load(array(select l.lane_id from inboxd.lanes l
		where l.lane_id between (select max(lane_id) - 40 from inboxd.lanes) and (select max(lane_id) - 25 from inboxd.lanes)), 16, 65536)`, 800},
	{"load one", `select * from inboxd.load(array[(select max(lane_id) - 30 from inboxd.lanes)], 16, 65536)`, 60},
	{"claim", `select inboxd.claim(1, array_agg(lane_id), array_agg(cursor), array_agg(version), 0, 0, 0)
		from (select * from inboxd.lanes order by lane_id desc limit 16) l`, 200},
	{"advance", `select inboxd.claim(1, array_agg(lane_id), array_agg(cursor), array_agg(version), 0, 0, 0),
		inboxd.advance(1, array_agg(lane_id), array_agg(cursor + 1), array_agg(cursor + 1), array_agg(1), null, true)
		from (select * from inboxd.lanes order by lane_id desc limit 16) l`, 400},
	{"take", `select inboxd.take(1, lane_id, cursor, version, cursor + 1, 1, 0, 0, 0, true)
		from (select * from inboxd.lanes order by lane_id desc limit 1) l`, 20},
	{"take a group", `select inboxd.take_group(1, array_agg(lane_id), array_agg(cursor), array_agg(version), array_agg(cursor + 1), array_agg(1), 0, 0, 0)
		from (select * from inboxd.lanes order by lane_id desc limit 16) l`, 200},
	{"sweep", `select * from inboxd.sweep(0, 0, 1, 100)`, 3000}, // the warm-up left dead entries
	{"stalled", `select * from inboxd.stalled(0, 1, 2, 100)`, 3000},
	{"due", `select * from inboxd.due(0, 1, 100)`, 100},
	{"settle", `select inboxd.settle(array_agg(lane_id)) from (select * from inboxd.lanes order by lane_id desc limit 16) l`, 300},
}

func pendingEvents(t testing.TB) int {
	t.Helper()
	v := os.Getenv(pendingVariable)
	if v == "" {
		return defaultPending
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", pendingVariable, err)
	}
	return n
}

// The steps cost what their own events cost, however many others are pending,
// with statistics that are missing or tell of tiny tables, with plans that a
// session made while the tables were small, while a snapshot is held open
// elsewhere, and with stuck lanes in front.
func TestStepsDoNotGrow(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]string{"never analyzed": `select`, "analyzed when small": `vacuum analyze`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			for _, table := range []string{"aggregates", "lanes", "inbox_1", "runs_1", "staged", "failures"} {
				s.exec(`alter table inboxd.` + table + ` set (autovacuum_enabled = off)`)
			}
			s.put(events("small", 12, 3)...)
			s.exec(prepare)
			snapshot := s.beginTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			one[int](t, snapshot, `select count(*) from inboxd.inbox`)
			early := s.connect()
			for range 7 { // the sixth plan is the one that is kept
				for _, step := range steps {
					measure(t, early, step.call)
				}
			}
			s.fill(pendingEvents(t))
			for session, conn := range map[string]*pgx.Conn{"early": early, "late": s.connect()} {
				for _, step := range steps {
					got := measure(t, conn, step.call)
					t.Logf("%-5s %-24s %5d buffers %5d tuples", session, step.name, got.buffers, got.tuples)
					if got.tuples > step.tuples || got.buffers > 10*step.tuples {
						t.Errorf("%s in the %s session: %+v, want at most %d tuples", step.name, session, got, step.tuples)
					}
				}
			}
		})
	}
}

// Trap 5, on the side of ingest: under an old snapshot no version of an
// aggregate's row can be removed. They stay in few pages.
func TestTrap5StoringUnderAnOldSnapshot(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const rounds = 1000
	s.put(events("before", 10, 1)...)
	snapshot := s.beginTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	one[int](t, snapshot, `select count(*) from inboxd.inbox`)
	const call = `select * from inboxd.store(array['agg-0'], array[1], array[1], array['measured'], array['Paid'], null,
		array['x'::bytea], null, null, null, null, null, null)`
	measured := func() cost {
		conn := s.connect()
		measure(t, conn, call) // a new session reads the catalog
		return measure(t, conn, call)
	}
	before := measured()
	for i := range rounds {
		s.put(event(fmt.Sprint("e-", i), "agg-0"))
	}
	after := measured()
	t.Logf("%+v before, %+v after %d transactions of the lane", before, after, rounds)
	if after.buffers > before.buffers+rounds/10 {
		t.Errorf("%+v before, %+v after %d transactions of the lane", before, after, rounds)
	}
	if got := one[int](t, snapshot, `select last_position from inboxd.aggregates`); got != 10 {
		t.Errorf("the snapshot was not held: it sees position %d", got)
	}
}
