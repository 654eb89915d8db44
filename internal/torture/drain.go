//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// quiet is what is left to do.
type quiet struct {
	stored  int // events in the inbox
	pending int // events of lanes that are not stuck
	broken  int // lanes stuck at an event that is repaired
}

// drain repairs what is broken and waits until nothing more can run.
func (w *world) drain(ctx context.Context) error {
	began := time.Now()
	deadline := began.Add(60*time.Second + w.opts.duration/3)
	expected := w.stream.expect().stored()
	var q quiet
	for last, since := (quiet{}), time.Now(); ; {
		w.repairOnce(ctx, true)
		var err error
		if q, err = w.look(ctx); err == nil && q.pending == 0 && q.broken == 0 && q.stored >= expected {
			break
		}
		if time.Now().After(deadline) {
			w.findings.add("drain", "after %s there is still something to run: %d of %d events are stored, %d are pending in lanes that are not stuck, %d lanes are not released (last error: %v)",
				time.Since(began).Round(time.Second), q.stored, expected, q.pending, q.broken, err)
			break
		}
		if q != last {
			last, since = q, time.Now()
		} else if time.Since(since) > 10*time.Second {
			w.say("draining: %d of %d stored, %d pending", q.stored, expected, q.pending)
			since = time.Now()
		}
		if !sleep(ctx, 250*time.Millisecond) {
			return ctx.Err()
		}
	}
	w.numbers.drainTook = time.Since(began)
	// Whoever died last has to be missed.
	if !sleep(ctx, lease+2*time.Second) {
		return ctx.Err()
	}
	return nil
}

func (w *world) look(ctx context.Context) (q quiet, err error) {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, f := range w.families() {
		var stored, pending, broken int
		err := w.pool.QueryRow(limited, fmt.Sprintf(`select
			(select coalesce(sum(last_position), 0) from %[1]s.aggregates),
			(select coalesce(sum(a.last_position - l.cursor), 0) from %[1]s.lanes l join %[1]s.aggregates a using (lane_id) where l.state <> 'stuck'),
			(select count(*) from %[1]s.lanes l join %[1]s.inbox i on i.lane_id = l.lane_id and i.position = l.cursor + 1
				join repaired r on r.event_id = i.event_id where l.state = 'stuck')`, f.name)).Scan(&stored, &pending, &broken)
		if err != nil {
			return q, err
		}
		q.stored += stored
		q.pending += pending
		q.broken += broken
	}
	return q, nil
}

// stopAll has every process stop at once, and then a last one find that there is
// nothing to run.
func (w *world) stopAll(ctx context.Context) {
	var stopping sync.WaitGroup
	var mu sync.Mutex
	for _, s := range w.slots() {
		stopping.Go(func() {
			s.close()
			if s.process() == nil {
				w.findings.add("exit", "%s does not run at the end", s.name)
			}
			took := w.mustStop(s)
			mu.Lock()
			defer mu.Unlock()
			w.numbers.stopTook = max(w.numbers.stopTook, took)
		})
	}
	stopping.Wait()
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if out, err := w.command(limited, w.opts.inboxd, w.shop, "serve", "--drain").CombinedOutput(); err != nil {
		w.findings.add("drain", "inboxd serve --drain, with nothing left to run: %v: %s", err, lastLines(out))
	}
}

func lastLines(out []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-5):], []byte("\n"))
}
