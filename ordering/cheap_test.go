package ordering_test

import (
	"os"
	"strconv"
	"testing"
)

// lanesVariable sets how many lanes TestStepsAreCheap fills, two events each.
// The bounds hold for any number.
const (
	lanesVariable = "INBOXD_TEST_LANES"
	cheapLanes    = 100_000
	stuckInFront  = 10_000
)

func manyLanes(t *testing.T) int {
	t.Helper()
	v := os.Getenv(lanesVariable)
	if v == "" {
		return cheapLanes
	}
	n, err := strconv.Atoi(v)
	must(t, err)
	return n
}

// What looks for work touches what it finds, whatever is pending behind it and
// whatever is stuck in front of it.
func TestStepsAreCheap(t *testing.T) {
	t.Parallel()
	s := setup(t)
	lanes := manyLanes(t)
	s.fill(lanes, 2, stuckInFront)
	s.exec(`update inboxd.lanes set state = 'backoff', next_attempt_at = now() + interval '1 day'
		where lane_id between 10001 and 12000`)
	s.exec(`update inboxd.lanes set state = 'backoff', next_attempt_at = now() - interval '1 s'
		where lane_id between 12001 and 12100`)
	s.exec(`update inboxd.aggregates set parked = true where lane_id between 10001 and 12100`)
	s.exec(`update inboxd.lanes set state = 'paused', paused_from = 'ready', paused_by = 'inboxd', paused_type = 'Down'
		where lane_id between 12101 and 22100`)
	s.exec(`insert into inboxd.breakers (event_type, reason, fingerprint, next_probe_at) values ('Down', 'away', 'f', now() - interval '1 day')`)
	s.cheap(lanes)
	s.exec(`vacuum analyze inboxd.aggregates, inboxd.lanes, inboxd.inbox`)
	s.cheap(lanes)
}

// cheap bounds the pages that each step touches.
func (s *stage) cheap(lanes int) {
	s.t.Helper()
	steps := []struct {
		name, sql string
		args      []any
		most      int
	}{
		{"a page of the sweep", `select * from inboxd.sweep(0, 0, 1, 1000)`, nil, 150},
		{"a page of the sweep, far in", `select * from inboxd.sweep($1, 0, 1, 1000)`, []any{lanes / 2}, 150},
		{"the sweep's last page", `select * from inboxd.sweep($1, 0, 1, 1000)`, []any{lanes - 10}, 20},
		{"a page of a quarter of the lanes", `select * from inboxd.sweep(0, 1, 4, 1000)`, nil, 400},
		{"a page of the others' lanes", `select * from inboxd.stalled(0, 1, 4, 1000)`, nil, 1000 * 5},
		{"what is due", `select * from inboxd.due(0, 1, 1000)`, nil, 150},
		{"what is due of another share", `select * from inboxd.due(1, 4, 1000)`, nil, 150},
		{"settle, 500 lanes", `select * from inboxd.settle(array(select generate_series(20001, 20500)::bigint))`, nil, 500 * 15},
		{"settle, 500 held lanes", `select * from inboxd.settle(array(select generate_series(1, 500)::bigint))`, nil, 500 * 15},
		{"tend, 10,000 lanes wait for a breaker", `select * from inboxd.tend(array['Up'], '1 s', '30 s', 500)`, nil, 60},
		{"a probe of 10,000 lanes", `select * from inboxd.probe(array['Down'], '-1 day', '-1 day')`, nil, 120},
		{"hold, 16 lanes", `select inboxd.hold(array(select generate_series(30000, 30015)::bigint),
			array_fill(-1::bigint, array[16]), array_fill(0, array[16]), 'Down')`, nil, 16 * 10},
		{"load, one lane", `select * from inboxd.load(array[30000::bigint], 16, 8192)`, nil, 20},
		{"load, 16 lanes", `select * from inboxd.load(array(select generate_series(30000, 30015)::bigint), 16, 8192)`, nil, 16 * 20},
	}
	for _, step := range steps {
		pages := s.buffers(step.sql, step.args...)
		s.t.Logf("%s: %d pages", step.name, pages)
		if pages > step.most {
			s.t.Errorf("%s touches %d pages with %d lanes, want %d at most", step.name, pages, lanes, step.most)
		}
	}
}
