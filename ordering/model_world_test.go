package ordering_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/ordering"
)

// world is the real thing beside the model: a database, the connection that the
// test looks at it through, and what the handlers saw.
type world struct {
	*model
	pool  *pgxpool.Pool
	conn  *pgx.Conn // not ended by faults
	store *inbox.Store
	reg   *handlers.Registry

	mu     sync.Mutex
	calls  map[string]int
	after  int           // calls until the fault
	strike chan struct{} // closed then
	others int           // processors besides one
	wrong  []string      // what handlers saw that must not be
}

func newWorld(t *testing.T) *world {
	s := setup(t)
	config, err := pgx.ParseConfig(s.url)
	must(t, err)
	config.RuntimeParams["application_name"], config.RuntimeParams["jit"] = "model", "off"
	conn, err := pgx.ConnectConfig(context.Background(), config)
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close(context.Background())) })
	w := &world{pool: s.pool, conn: conn, store: inbox.NewStore(conn, "")}
	w.reg = handlers.New()
	handlers.On(w.reg, "On", w.handle)
	handlers.OnBatch(w.reg, "Batch", w.handleBatch)
	handlers.OnQueue(w.reg, "Queue", w.queue)
	return w
}

const resetSQL = `
do $$ declare s integer; begin
	for s in select segment from inboxd.segments where segment > 1 loop
		execute format('drop table inboxd.inbox_%s, inboxd.runs_%s', s, s);
	end loop;
end $$;
delete from inboxd.segments where segment > 1;
truncate inboxd.aggregates, inboxd.lanes, inboxd.inbox, inboxd.runs, inboxd.failures, inboxd.audit,
	inboxd.processes, inboxd.staged, effects restart identity`

func (w *world) reset(t *rapid.T) {
	w.model = newModel()
	w.exec(t, resetSQL)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls, w.wrong, w.after, w.strike = map[string]int{}, nil, 0, make(chan struct{})
}

func (w *world) exec(t *rapid.T, sql string) {
	t.Helper()
	if _, err := w.conn.PgConn().Exec(context.Background(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func ask[T any](t *rapid.T, w *world, sql string, args ...any) T {
	t.Helper()
	var v T
	if err := w.conn.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// called counts a call and answers how many there were for the event before.
func (w *world) called(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.after > 0 {
		if w.after--; w.after == 0 {
			close(w.strike)
		}
	}
	w.calls[id]++
	return w.calls[id] - 1
}

func (w *world) saw(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// seenSQL is what a handler can see of its event: the failures recorded for it,
// and the attempt that the lane's row tells, if the event is its head. Another
// process may have counted an attempt, too, and come too late to run it, and take
// it back at any moment.
const seenSQL = `
select (select count(*) from inboxd.failures f where f.lane_id = l.lane_id and f.position = $2 and not f.crash),
	case when l.cursor = $2 - 1 then l.attempts + 1 else 1 end,
	case when l.cursor = $2 - 1 then l.attempts + greatest(l.crashes, 1) else 1 end
from inboxd.lanes l where l.aggregate_id = $1`

var errScripted = errors.New("as the script says")

func (w *world) handle(ctx context.Context, tx pgx.Tx, e handlers.Event[script]) error {
	if w.called(e.ID) < e.Data.Pauses {
		return handlers.Pause(errScripted)
	}
	if err := effect(ctx, tx, e.Message); err != nil {
		return err
	}
	var failed, least, most int
	if err := tx.QueryRow(ctx, seenSQL, e.AggregateID, e.Position).Scan(&failed, &least, &most); err != nil {
		return err
	}
	if e.Attempt < least || e.Attempt > most+w.others {
		w.saw("event %s runs as attempt %d, its lane's row says %d to %d", e.ID, e.Attempt, least, most)
	}
	switch {
	case failed < e.Data.Fails:
		return errScripted
	case e.Data.Then == "skip":
		return handlers.Skip(errScripted)
	case e.Data.Then == "permanent":
		return handlers.Permanent(errScripted)
	}
	return nil
}

func (w *world) handleBatch(ctx context.Context, tx pgx.Tx, events []handlers.Event[script]) error {
	for _, e := range events {
		if err := w.handle(ctx, tx, e); err != nil {
			if len(events) > 1 {
				return errors.New("one of several")
			}
			return err
		}
	}
	return nil
}

// failingSQL divides by zero until so many failures are recorded.
const failingSQL = `
select 1 / (count(*) >= $3)::integer from inboxd.failures f join inboxd.lanes l using (lane_id)
where l.aggregate_id = $1 and f.position = $2 and not f.crash`

func (w *world) queue(_ context.Context, b *pgx.Batch, e handlers.Event[script]) error {
	if w.called(e.ID) < e.Data.Pauses {
		return handlers.Pause(errScripted)
	}
	b.Queue(`insert into effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Position)
	b.Queue(failingSQL, e.AggregateID, e.Position, e.Data.Fails)
	if e.Data.Fails > 0 {
		return nil
	}
	switch e.Data.Then {
	case "skip":
		return handlers.Skip(errScripted)
	case "permanent":
		return handlers.Permanent(errScripted)
	}
	return nil
}

// put stores events; those whose id is stored already are duplicates.
type put struct{ Events []putEvent }

type putEvent struct {
	Lane, ID int
	Form     string
	Script   script
}

func (p put) do(t *rapid.T, w *world) {
	var events []inbox.Event
	var want []inbox.Outcome
	for _, e := range p.Events {
		if e.Form == "Queue" && e.Script.Fails > 0 {
			e.Script.Then = "ok" // it cannot know when it has failed often enough
		}
		payload, err := json.Marshal(e.Script)
		if err != nil {
			t.Fatal(err)
		}
		event := inbox.Event{ID: fmt.Sprint("e", e.ID), AggregateID: w.lanes[e.Lane].name, Type: e.Form, Payload: payload}
		events = append(events, event)
		want = append(want, w.add(w.lanes[e.Lane], &modelEvent{id: event.ID, form: e.Form, script: e.Script}))
	}
	got, err := w.store.Put(context.Background(), events)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("put %v: %v, %v; want %v", events, got, err, want)
	}
}

// add answers what becomes of an event that is stored.
func (m *model) add(l *modelLane, e *modelEvent) inbox.Outcome {
	stored, ok := m.ids[e.id]
	switch {
	case !ok:
		m.ids[e.id] = e
		l.events = append(l.events, e)
		return inbox.Stored
	case stored.form == e.form && stored.script == e.script && slices.Contains(l.events, stored):
		return inbox.Duplicate
	}
	return inbox.Conflict
}

// run has one or two processors run. Without a fault, or with sessions that are
// ended, they run until nothing can run any more.
type run struct {
	Processors, Workers, Batch, Group int
	After                             int    // calls until the fault
	Fault                             string // "", stop, abort or terminate
}

func (r run) config() ordering.Config {
	return ordering.Config{
		Workers: r.Workers, Batch: r.Batch, Group: r.Group, Sweep: 10 * time.Millisecond,
		Breaker: ordering.Breaker{Probe: 10 * time.Millisecond, Max: 20 * time.Millisecond},
		Retry:   ordering.Retry{Initial: time.Millisecond, Max: 2 * time.Millisecond, Attempts: modelAttempts},
	}
}

func (r run) do(t *rapid.T, w *world) {
	w.mu.Lock()
	w.after, w.strike, w.others = 0, make(chan struct{}), r.Processors-1
	if r.Fault != "" {
		w.after = r.After
	}
	strike := w.strike
	w.mu.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	var processors []*ordering.Processor
	for range r.Processors {
		p, err := ordering.New(w.pool, w.reg, r.config())
		if err != nil {
			t.Fatal(err)
		}
		processors = append(processors, p)
		running.Go(func() { r.ended(w, p.Run(ctx)) })
	}
	quiet := w.wait(t, stop, strike)
	if !quiet && r.Fault == "terminate" {
		w.exec(t, `select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and backend_type = 'client backend' and application_name <> 'model'`)
		quiet = w.wait(t, stop, nil)
	}
	if r.Fault == "abort" {
		for _, p := range processors {
			p.Abort()
		}
	}
	stop()
	running.Wait()
	w.gone(t)
	if quiet {
		w.finish(t)
	}
	w.adopt(t)
}

func (r run) ended(w *world, err error) {
	var cut *ordering.CutShortError
	if err != nil && !(r.Fault == "abort" && errors.As(err, &cut)) {
		w.saw("run: %v", err)
	}
}

const (
	quietSQL = `select not exists (select from inboxd.aggregates a join inboxd.lanes l using (lane_id)
	where a.last_position > l.cursor and (l.state in ('ready', 'backoff') or l.paused_type is not null))`
	openSQL = `select coalesce(string_agg(format('%s: %s, cursor %s of %s, pending %s, parked %s, attempts %s, crashes %s, next attempt in %s',
	a.aggregate_id, l.state, l.cursor, a.last_position, a.pending, a.parked, l.attempts, l.crashes, l.next_attempt_at - clock_timestamp()), '; '), 'nothing')
	from inboxd.aggregates a join inboxd.lanes l using (lane_id)
	where a.last_position > l.cursor and (l.state in ('ready', 'backoff') or l.paused_type is not null)`
)

// wait waits until no lane can run any more; false: the fault came first.
func (w *world) wait(t *rapid.T, stop func(), strike <-chan struct{}) bool {
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if ask[bool](t, w, quietSQL) {
			return true
		}
		select {
		case <-strike:
			return false
		case <-tick.C:
		case <-deadline:
			stop()
			t.Fatalf("never done: %s", ask[string](t, w, openSQL))
		}
	}
}

// gone waits until the sessions that were cut off have ended.
func (w *world) gone(t *rapid.T) {
	for !ask[bool](t, w, `select not exists (select from pg_locks k join pg_stat_activity a using (pid)
		where a.datname = current_database() and a.application_name <> 'model' and k.locktype = 'transactionid')`) {
	}
}

// finish runs the model to its end.
func (w *world) finish(t *rapid.T) {
	for _, l := range w.lanes {
		for l.open() {
			l.step()
		}
		if got := w.real(t, l); got != l.place() {
			t.Fatalf("lane %s is at %+v, want %+v; %s", l.name, got, l.place(), w.row(t, l))
		}
	}
}

// row tells all about a lane.
func (w *world) row(t *rapid.T, l *modelLane) string {
	return ask[string](t, w, `select format('%s failures %s', row_to_json(l),
		(select json_agg(f order by failure_id) from inboxd.failures f where f.lane_id = l.lane_id and f.position = l.cursor + 1))
		from inboxd.lanes l where aggregate_id = $1`, l.name)
}

// adopt moves the model to where the real lanes are, which must be a place that
// it passes.
func (w *world) adopt(t *rapid.T) {
	for _, l := range w.lanes {
		got := w.real(t, l)
		passed := []modelPlace{l.place()}
		for l.place() != got {
			if !l.open() {
				t.Fatalf("lane %s is at %+v, want one of %+v", l.name, got, passed)
			}
			l.step()
			passed = append(passed, l.place())
		}
		l.crashes = ask[int](t, w, `select coalesce((select crashes from inboxd.lanes where aggregate_id = $1), 0)`, l.name)
		if l.cursor < len(l.events) {
			l.events[l.cursor].crashed = l.crashes
		}
	}
}

const placeSQL = `
select l.cursor, l.attempts, (select count(*) from inboxd.failures f
	where f.lane_id = l.lane_id and f.position = l.cursor + 1 and not f.crash), l.state = 'stuck'
from inboxd.lanes l where l.aggregate_id = $1`

func (w *world) real(t *rapid.T, l *modelLane) (p modelPlace) {
	err := w.conn.QueryRow(context.Background(), placeSQL, l.name).Scan(&p.cursor, &p.attempts, &p.failed, &p.stuck)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return p
}

// check compares the tables with the invariants and with the model.
func (w *world) check(t *rapid.T, when string) {
	found, err := violations(w.conn)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	found = append(found, w.wrong...)
	w.mu.Unlock()
	for _, l := range w.lanes {
		if got := w.real(t, l); got != l.place() {
			found = append(found, fmt.Sprintf("lane %s is at %+v, want %+v", l.name, got, l.place()))
		}
	}
	found = append(found, w.compare(t)...)
	if len(found) > 0 {
		t.Fatalf("%s:\n%s", when, strings.Join(found, "\n"))
	}
}

// compare compares each event with the view. Failures that were counted for
// processes that died stay in an event's history when an operator retried it.
func (w *world) compare(t *rapid.T) (wrong []string) {
	seen := map[string]bool{}
	rows, _ := w.conn.Query(context.Background(), `select event_id, attempts, processed_at is not null, skipped_at is not null from inboxd.events`)
	var id string
	var attempts int
	var processed, skipped bool
	_, err := pgx.ForEachRow(rows, []any{&id, &attempts, &processed, &skipped}, func() error {
		seen[id] = true
		e := w.ids[id]
		least := e.failed
		if processed && !skipped {
			least++
		}
		if skipped != e.skipped || attempts < least || attempts > least+e.crashed {
			wrong = append(wrong, fmt.Sprintf("event %s has %d attempts, skipped %v; want %d and at most %d crashes, skipped %v",
				id, attempts, skipped, least, e.crashed, e.skipped))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for id := range maps.Keys(w.ids) {
		if !seen[id] {
			wrong = append(wrong, "event "+id+" is lost")
		}
	}
	return wrong
}
