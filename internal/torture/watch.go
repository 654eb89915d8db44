//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// watcher looks at the world from outside while it runs.
type watcher struct {
	world *world

	mu          sync.Mutex // also guards the stream and the numbers during the storm
	seen        int64      // effects up to this seq were looked at
	connections map[string]int
	memory      map[string]int // MiB at most, by slot
	hiccup      time.Duration  // the longest that the machine did not let the watcher run
	hiccups     []span         // longer ones
	load        float64        // average, at most
}

// span is a stretch of time.
type span struct{ from, to time.Time }

func newWatcher(w *world) *watcher {
	return &watcher{world: w, connections: map[string]int{}, memory: map[string]int{}}
}

func (o *watcher) run(ctx context.Context) {
	var parts sync.WaitGroup
	parts.Go(func() { o.feelPulse(ctx) })
	parts.Go(func() {
		for sleep(ctx, 500*time.Millisecond) {
			o.countConnections(ctx)
			o.measureMemory()
			o.confirm(ctx)
		}
	})
	parts.Wait()
}

// feelPulse notes when the machine does not let it run in time: what took long
// then may be the machine's fault.
func (o *watcher) feelPulse(ctx context.Context) {
	const beat = 50 * time.Millisecond
	last := time.Now()
	for sleep(ctx, beat) {
		late := time.Since(last) - beat
		o.mu.Lock()
		o.hiccup = max(o.hiccup, late)
		if late > 300*time.Millisecond {
			o.hiccups = append(o.hiccups, span{last, time.Now()})
		}
		o.mu.Unlock()
		last = time.Now()
	}
}

// hiccupWithin is how long the machine stood still in a span.
func (o *watcher) hiccupWithin(from, to time.Time) (total time.Duration) {
	for _, h := range o.hiccups {
		if h.from.Before(to) && h.to.After(from) {
			total += h.to.Sub(h.from)
		}
	}
	return total
}

func (o *watcher) countConnections(ctx context.Context) {
	rows, err := o.world.pool.Query(ctx, `select application_name, count(*) from pg_stat_activity
		where application_name like $1 group by 1`, tortured+"%")
	if err != nil {
		return
	}
	var name string
	var n int
	_, _ = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.connections[name] = max(o.connections[name], n)
		return nil
	})
}

func (o *watcher) measureMemory() {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		average, _, _ := strings.Cut(string(text), " ")
		load, _ := strconv.ParseFloat(average, 64)
		o.load = max(o.load, load)
	}
	w := o.world
	for _, s := range append(w.slots(), w.shop.extra, w.team.extra) {
		p := s.process()
		if p == nil {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
		if err != nil {
			continue
		}
		_, after, _ := bytes.Cut(status, []byte("VmHWM:"))
		fields := strings.Fields(string(after[:min(len(after), 40)]))
		if len(fields) == 0 {
			continue
		}
		kib, _ := strconv.Atoi(fields[0])
		o.mu.Lock()
		o.memory[s.name] = max(o.memory[s.name], kib>>10)
		o.mu.Unlock()
	}
}

// confirm marks the events whose effects it sees: from then on they may be
// repeated from any partition.
func (o *watcher) confirm(ctx context.Context) {
	rows, err := o.world.pool.Query(ctx, `select seq, event_id from effects where seq > $1 order by seq limit 20000`, o.seen)
	if err != nil {
		return
	}
	var seq int64
	var id string
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = pgx.ForEachRow(rows, []any{&seq, &id}, func() error {
		o.seen = seq
		if i := o.world.stream.indexOf(id); i >= 0 {
			o.world.stream.events[i].confirmed = true
		}
		return nil
	})
}

// collect reads names; nil when the database is away.
func collect(rows pgx.Rows, err error) []string {
	if err != nil {
		return nil
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil
	}
	return names
}
