package inboxtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/ordering"
)

// run is one run of a case.
type run struct {
	*Kit
	c     Case
	name  string
	ended state // of a clean run, in the end
}

// fresh begins a run that goes by a plan.
func (c Case) fresh(t T, name string, p plan) *run {
	t.Helper()
	k := New(t, c.Options)
	k.probe.follow(p)
	return &run{Kit: k, c: c, name: name}
}

// process starts a process with handlers of its own.
func (r *run) process(config ordering.Config) *process {
	r.t.Helper()
	reg := r.c.Handlers(r.Kit)
	if reg == nil {
		r.t.Fatalf("Case.Handlers answered nil; it has to make a registry")
	}
	if err := use(reg, r.probe.middleware); err != nil {
		r.t.Fatalf("Case.Handlers has to make a new registry at each call: %v", err)
	}
	config.Schema = r.options.Schema
	config.Policies = map[string]handlers.Retry{} // before what the types were registered with
	for _, eventType := range reg.Types() {
		if !reg.Ignores(eventType) {
			config.Policies[eventType] = handlers.Retry{Attempts: config.Retry.Attempts}
		}
	}
	p, err := r.start(reg, config)
	if err != nil {
		r.t.Fatalf("%v", err)
	}
	r.t.Cleanup(func() { // for a run that ended in the middle
		p.Abort()
		_ = p.stop()
	})
	return p
}

// use is Registry.Use with its panic as an error: the registry is not ours.
func use(reg *handlers.Registry, m handlers.Middleware) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	reg.Use(m)
	return nil
}

// oneByOne stores the case's events one after the other, each when the one before
// it and all that came of it are done.
func (r *run) oneByOne(p *process) {
	r.t.Helper()
	for _, e := range r.c.Events {
		r.store(e)
		if err := r.untilQuiet(true, p); err != nil {
			_ = p.stop() // the error before it counts
			r.t.Fatalf("%s: %v\n%s", r.name, err, r.History())
		}
	}
	if err := p.stop(); err != nil {
		r.t.Fatalf("%s: %v\n%s", r.name, err, r.History())
	}
}

// quiet waits until no lane can run, and stops the processes.
func (r *run) quiet(processes ...*process) {
	r.t.Helper()
	err := r.untilQuiet(true, processes...)
	for _, p := range processes {
		err = errors.Join(err, p.stop())
	}
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", r.name, err, r.History())
	}
}

// store stores events and fails the test if they cannot be.
func (r *run) store(events ...inbox.Event) {
	r.t.Helper()
	ctx, cancel := r.context()
	defer cancel()
	store := inbox.NewStore(r.side, r.options.Schema)
	if _, err := store.Put(ctx, events); err != nil {
		r.t.Fatalf("%s: %v", r.name, err)
	}
}

// doneSQL says what became of each event; but not where in its lane it stands,
// which depends on the interleaving if a handler added it.
const doneSQL = `
select 'event ' || e.event_id || ' of ' || e.aggregate_id || ': ' || case
	when e.skipped_at is not null then 'skipped'
	when e.processed_at is not null then 'processed'
	when e.position > l.cursor + 1 then 'waits behind another'
	when l.state = 'stuck' then 'stuck'
	else 'waits' end
from {schema}.events e
join {schema}.lanes l on l.lane_id = e.lane_id`

// end is the state that a run ended in.
func (r *run) end() state {
	r.t.Helper()
	ctx, cancel := r.context()
	defer cancel()
	s, err := r.shown(ctx, nil)
	if err != nil {
		r.t.Fatalf("%s: %v", r.name, err)
	}
	s = append(s, r.names(doneSQL)...)
	slices.Sort(s)
	return s
}

// shown reads what the case says has to be the same.
func (r *run) shown(ctx context.Context, except []string) (state, error) {
	if len(r.c.State) == 0 {
		return r.dump(ctx, except)
	}
	var s state
	for _, sql := range r.c.State {
		found, err := r.side.Query(ctx, sql)
		if err != nil {
			return nil, fmt.Errorf("%w, in: %s", err, sql)
		}
		lines, err := pgx.CollectRows(found, describe)
		if err != nil {
			return nil, fmt.Errorf("%w, in: %s", err, sql)
		}
		s = append(s, lines...)
	}
	slices.Sort(s)
	return s, nil
}

// describe writes the row of a query.
func describe(row pgx.CollectableRow) (string, error) {
	values, err := row.Values()
	if err != nil {
		return "", err
	}
	parts := make([]string, len(values))
	for i, f := range row.FieldDescriptions() {
		parts[i] = fmt.Sprintf("%s=%v", f.Name, values[i])
	}
	return strings.Join(parts, " "), nil
}

// compare fails the test unless the run ended like the one in which all went well.
func (r *run) compare(clean *run) {
	r.t.Helper()
	if d := diff(clean.ended, r.end()); d != "" {
		r.t.Errorf("%s: the end differs from that of a run in which all goes well (-: only there, +: only here):\n%s"+
			"\nhere:\n%s\n\nthere:\n%s", r.name, d, r.History(), clean.History())
	}
}

// clean runs the case twice with all going well.
func (c Case) clean(t T) *run {
	t.Helper()
	first, second := c.once(t, "a clean run"), c.once(t, "a second clean run")
	if d := diff(first.ended, second.ended); d != "" {
		t.Fatalf("two runs in which all goes well end differently (-: only in the first, +: only in the second). "+
			"Either the handlers do not depend on their events alone, but on a clock, on chance or on what an earlier run "+
			"left in memory; or the difference is meant, and Case.State has to leave it out:\n%s\nthe second:\n%s", d, second.History())
	}
	return first
}

// compares fails the test if there is nothing to compare, so that every handler
// would pass, or if a table is named that is not there.
func (r *run) compares() {
	r.t.Helper()
	ctx, cancel := r.context()
	defer cancel()
	tables, err := r.tables(ctx)
	if err != nil {
		r.t.Fatalf("%s: %v", r.name, err)
	}
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.name
	}
	for _, name := range r.c.Outside {
		if !slices.Contains(names, name) {
			r.t.Fatalf("Case.Outside names %q, which is no business table; there are: %s", name, list(names))
		}
	}
	if len(tables) == 0 && len(r.c.State) == 0 {
		r.t.Fatalf("there is no business table whose rows could be compared; make them with Options.Setup or Options.Prepare")
	}
}

func (c Case) once(t T, name string) *run {
	t.Helper()
	r := c.fresh(t, name, noFaults{})
	r.compares()
	r.oneByOne(r.process(c.calm()))
	waiting := r.Waiting()
	if len(waiting) > 0 && !c.Stuck {
		t.Fatalf("%s: %s are not processed when all goes well; if that is meant, set Case.Stuck\n%s",
			name, list(waiting), r.History())
	}
	r.ended = r.end()
	return r
}
