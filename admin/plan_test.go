package admin_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/internal/pgtest"
)

// recorder keeps the statements that are sent.
type recorder struct {
	mu   sync.Mutex
	sent []pgx.TraceQueryStartData
}

func (r *recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, d)
	return ctx
}

func (r *recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *recorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceBatchStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range d.Batch.QueuedQueries {
		r.sent = append(r.sent, pgx.TraceQueryStartData{SQL: q.SQL, Args: q.Arguments})
	}
	return ctx
}

func (r *recorder) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (r *recorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// crowdedSQL makes 20,000 lanes of three events: one in five is stuck, one in
// ten backs off, one in ten is ready.
const crowdedSQL = `
insert into inboxd.aggregates (aggregate_id, last_position, pending) select 'order-' || g, 3, false from generate_series(1, 20000) g;
insert into inboxd.lanes (lane_id, aggregate_id, segment, cursor) select lane_id, aggregate_id, 1, 3 from inboxd.aggregates;
insert into inboxd.inbox (lane_id, position, received_at, occurred_at, segment, event_id, aggregate_id, event_type, payload)
	select lane_id, p, now(), now(), 1, lane_id || '/' || p, aggregate_id, case when lane_id % 500 = 0 then 'Rare' else 'Paid' end, ''
	from generate_series(1, 3) p, inboxd.aggregates;
update inboxd.lanes set cursor = 1, state = case when lane_id % 10 = 3 then 'backoff' else 'stuck' end, since = now() - lane_id * interval '1 second',
	next_attempt_at = now() + interval '1 hour', error_message = 'x', error_fingerprint = 'f' || lane_id % 2, error_at = now() where lane_id % 10 in (0, 3, 5);
update inboxd.lanes set cursor = 2 where lane_id % 10 = 7;
insert into inboxd.runs (lane_id, first_position, last_position, at, generation, process_id, segment, kind)
	select lane_id, p, p, now(), 0, 1, 1, 'r' from inboxd.lanes, generate_series(1, 3) p where p <= cursor;
update inboxd.aggregates a set pending = cursor < 3, parked = state <> 'ready' from inboxd.lanes l where l.lane_id = a.lane_id and l.cursor < 3;
insert into inboxd.audit (actor, action, aggregate_id) select 'x', 'retry', 'order-' || g from generate_series(1, 5000) g;
insert into inboxd.failures (lane_id, position, attempt, process_id, fingerprint, message) select lane_id, cursor + 1, 1, 1, 'f', 'x' from inboxd.lanes where state <> 'ready';
insert into inboxd.quarantine (reason, detail) select 'x', 'x' from generate_series(1, 5000)`

var (
	scanned = regexp.MustCompile(`Seq Scan on (lanes|aggregates|inbox_1|runs_1|audit|failures|quarantine)\b`)
	touched = regexp.MustCompile(`shared hit=(\d+)`)
	// grouping statements look at every held lane.
	grouping = regexp.MustCompile(`group by l.error_fingerprint|g\(fingerprint, last\)`)
)

// What an operator looks at is found by index, and a page costs as much behind
// thousands of lanes as before them.
func TestNothingIsScanned(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(crowdedSQL)
	s.exec(`vacuum analyze`)
	config, err := pgxpool.ParseConfig(s.url)
	must(t, err)
	rec := &recorder{}
	config.ConnConfig.Tracer = rec
	a := admin.New(pgtest.PoolConfig(t, config), "")

	for _, f := range []admin.Filter{{}, {State: admin.Stuck}, {State: admin.Ready}, {State: admin.Running}, {Error: "f1"},
		{Error: "f1", State: admin.Stuck}, {State: admin.Stuck, OlderThan: 5 * time.Hour}} {
		for _, err := range a.Lanes(t.Context(), f) {
			must(t, err)
		}
	}
	for _, err := range a.Lanes(t.Context(), admin.Filter{Limit: 100}) {
		must(t, err)
	}
	_, err = a.Lane(t.Context(), "order-10")
	must(t, err)
	_, err = a.Event(t.Context(), "10/2")
	must(t, err)
	for _, err := range a.Events(t.Context(), admin.EventFilter{AggregateID: "order-10"}) {
		must(t, err)
	}
	for _, processed := range []bool{false, true} {
		for _, err := range a.Events(t.Context(), admin.EventFilter{AggregateID: "order-10", Processed: &processed}) {
			must(t, err)
		}
	}
	for _, f := range []admin.ErrorFilter{{}, {Type: "Rare"}} {
		_, err = a.Errors(t.Context(), f)
		must(t, err)
	}
	for _, f := range []admin.AuditFilter{{}, {AggregateID: "order-10"}, {Limit: 10, Action: "retry"}} {
		for _, err := range a.Audit(t.Context(), f) {
			must(t, err)
		}
	}
	for _, err := range a.Quarantine(t.Context(), admin.QuarantineFilter{}) {
		must(t, err)
	}
	for _, err := range a.Quarantine(t.Context(), admin.QuarantineFilter{OldestFirst: true}) {
		must(t, err)
	}
	_, err = a.Edit(t.Context(), ada, "10/2", []byte("2"))
	must(t, err)
	_, err = a.QuarantineRecord(t.Context(), 10)
	must(t, err)
	_, err = a.Verify(t.Context(), admin.VerifyOptions{AggregateID: "order-10"})
	must(t, err)
	_, err = a.Apply(t.Context(), admin.Retry, admin.By{}, admin.Target{AggregateID: "order-10"})
	must(t, err)
	plan, err := a.ReplayPlan(t.Context(), "order-17", "17/1")
	must(t, err)
	for _, err := range a.Replayed(t.Context(), plan) {
		must(t, err)
	}
	_, err = a.Replay(t.Context(), ada, plan)
	must(t, err)
	for _, b := range []admin.Bulk{
		{Action: admin.Retry, Filter: admin.Filter{Error: "f1", Limit: 1200}},
		{Action: admin.Pause, By: ada, Filter: admin.Filter{State: admin.Ready, Limit: 300}},
		{Action: admin.Resume, Filter: admin.Filter{Limit: 200}},
		{Action: admin.Skip, By: ada, Filter: admin.Filter{State: admin.Stuck, Limit: 200}},
	} {
		for _, err := range a.ApplyAll(t.Context(), b) {
			must(t, err)
		}
	}

	rec.mu.Lock()
	defer rec.mu.Unlock()
	if len(rec.sent) < 80 {
		t.Fatalf("only %d statements were recorded", len(rec.sent))
	}
	settings := ""
	for _, d := range rec.sent {
		switch sql := strings.TrimSpace(d.SQL); {
		case strings.HasPrefix(sql, "select set_config"):
			if !strings.Contains(sql, "$1") {
				settings += sql + ";"
			}
		case strings.HasPrefix(sql, "select"), strings.HasPrefix(sql, "with"):
			if !strings.Contains(sql, ".change(") && !strings.Contains(sql, "clock_timestamp(), coalesce(max(id)") {
				s.explain(settings, d)
			}
		case strings.HasPrefix(sql, "begin"), strings.HasPrefix(sql, "commit"), strings.HasPrefix(sql, "rollback"):
			settings = ""
		}
	}
}

// explain fails the test if a statement, in a transaction with the settings,
// scans a table or reads too much of it.
func (s *stage) explain(settings string, d pgx.TraceQueryStartData) {
	s.t.Helper()
	sql := strings.TrimSpace(d.SQL)
	tx, err := s.pool.Begin(context.Background())
	must(s.t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(context.Background(), settings)
	must(s.t, err)
	rows, err := tx.Query(context.Background(), "explain (analyze, buffers) "+sql, d.Args...)
	must(s.t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(s.t, err)
	plan := strings.Join(lines, "\n")
	if m := scanned.FindString(plan); m != "" {
		s.t.Errorf("%s: %s\n%s", m, sql, plan)
	}
	if m := touched.FindStringSubmatch(plan); m != nil && len(m[1]) > 4 && !grouping.MatchString(sql) {
		s.t.Errorf("%s pages are read: %s\n%s", m[1], sql, plan)
	}
}
