//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// repairs are the fragile events that are still to be repaired.
type repairs struct {
	mu    sync.Mutex
	due   map[string]time.Time
	tried int // retries by the operator
}

func (r *repairs) later(id string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == nil {
		r.due = map[string]time.Time{}
	}
	r.due[id] = at
}

// ready are those whose time has come; with all, all of them.
func (r *repairs) ready(all bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, at := range r.due {
		if all || time.Now().After(at) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *repairs) done(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		delete(r.due, id)
	}
}

// repair repairs events whose time has come, until ctx ends, and has an operator
// retry the lanes that are stuck at one.
func (w *world) repair(ctx context.Context) {
	for sleep(ctx, 250*time.Millisecond) {
		w.repairOnce(ctx, false)
	}
}

func (w *world) repairOnce(ctx context.Context, all bool) {
	if ids := w.fixes.ready(all); len(ids) > 0 {
		if _, err := w.pool.Exec(ctx, `insert into repaired select unnest($1::text[]) on conflict do nothing`, ids); err != nil {
			return // the database is away; there is another time
		}
		w.fixes.done(ids)
	}
	for _, f := range w.families() {
		if stuck := w.stuckThough(ctx, f); len(stuck) > 0 {
			_ = w.retry(ctx, f, stuck...) // a lane may have moved, or the database be away: there is another time
		}
	}
}

// stuckThough answers the lanes that are stuck at an event that is repaired.
func (w *world) stuckThough(ctx context.Context, f *family) []string {
	rows, err := w.pool.Query(ctx, f.in(`select l.aggregate_id from {schema}.lanes l
		join {schema}.inbox i on i.lane_id = l.lane_id and i.position = l.cursor + 1
		join repaired r on r.event_id = i.event_id
		where l.state = 'stuck'`))
	return collect(rows, err)
}

// stuckForGood answers some lanes that are stuck, but for those of events that
// end processes or connections: to try these again takes long, and others to run
// beside them.
func (w *world) stuckForGood(ctx context.Context, f *family) []string {
	rows, err := w.pool.Query(ctx, f.in(
		`select aggregate_id from {schema}.lanes where state = 'stuck' and error_message not like 'every attempt ended%' order by aggregate_id limit 100`))
	return collect(rows, err)
}

// retry is an operator's command.
func (w *world) retry(ctx context.Context, f *family, aggregates ...string) error {
	w.fixes.mu.Lock()
	w.fixes.tried++
	w.fixes.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cmd := w.command(limited, w.opts.inboxd, f, append([]string{"lanes", "retry"}, aggregates...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("inboxd lanes retry %v: %w: %s", aggregates, err, bytes.TrimSpace(out))
	}
	return nil
}
