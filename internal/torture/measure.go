//go:build linux

package main

import (
	"fmt"
	"slices"
	"time"
)

// wait is how long an event was its lane's next and did not take effect.
type wait struct {
	id        string
	aggregate string
	worker    string
	from, to  time.Time
}

// measure finds for each fault how long lanes stood still, and what is too long.
func (w *world) measure(f *facts) {
	waits := w.waits(f)
	times := make([]time.Time, len(f.effects))
	for i := range f.effects {
		times[i] = f.effects[i].at
	}
	slices.SortFunc(times, time.Time.Compare)
	for _, s := range w.faults.strikes {
		if s.skipped != "" || s.at.IsZero() {
			continue
		}
		w.recovery(s, waits)
		s.gap = longestGap(times, s.at, s.until.Add(s.limit))
		s.ingest = w.longestIngest(f, s)
		limit := s.limit + backlogTime(times, s)
		if w.overlapped(s) {
			limit = stallLimit
		}
		limit = time.Duration(float64(limit) * w.opts.patience)
		if s.recovery > limit+w.watcher.hiccupWithin(s.ref, s.ref.Add(s.recovery)) {
			w.findings.add("stall", "%s of %s at %s: %s until %s", s.kind, s.target,
				s.at.Sub(w.began).Round(time.Millisecond), s.recovery.Round(time.Millisecond), s.slowest)
		}
	}
}

// waits are the waits of events that never fail, in lanes that neither the
// torture nor an event of their own held.
func (w *world) waits(f *facts) []wait {
	troubled := map[string]bool{}
	for i := range w.stream.events {
		if m := &w.stream.events[i]; m.final() || m.kind == crashing {
			troubled[w.stream.aggregates[m.aggregate].name] = true
		}
	}
	var all []wait
	for i := range f.effects {
		e := &f.effects[i]
		index := w.stream.indexOf(e.id)
		if troubled[e.aggregate] || index >= 0 && !w.stream.events[index].kind.plain() {
			continue
		}
		from := f.inbox[e.id].received
		if i > 0 && f.effects[i-1].aggregate == e.aggregate && f.effects[i-1].at.After(from) {
			from = f.effects[i-1].at
		}
		if !w.held.overlaps(e.aggregate, from, e.at) {
			all = append(all, wait{e.id, e.aggregate, e.worker, from, e.at})
		}
	}
	return all
}

// recovery is the longest time from the fault, or from when an event was next,
// until it took effect, of the events that waited then.
func (w *world) recovery(s *strike, waits []wait) {
	end := s.ref.Add(s.limit)
	for _, x := range waits {
		if x.to.Before(s.ref) || x.from.After(end) {
			continue
		}
		from := x.from
		if s.ref.After(from) {
			from = s.ref
		}
		if took := x.to.Sub(from); took > s.recovery {
			s.recovery = took
			s.slowest = fmt.Sprintf("%s of %s, next since %s, by %s", x.id, x.aggregate, x.from.Sub(w.began).Round(time.Millisecond), x.worker)
		}
	}
}

// stallLimit is how long a lane may wait while several faults come together.
const stallLimit = 30 * time.Second

// overlapped reports whether another fault that can hold up lanes, or a handler
// that ended its process, was there while this one lasted, or had its limit to
// pass.
func (w *world) overlapped(s *strike) bool {
	end := s.ref.Add(s.limit)
	for _, at := range w.exits.crashes {
		if at.Before(end) && at.Add(lease).After(s.at) {
			return true
		}
	}
	for _, o := range w.faults.strikes {
		if o == s || o.skipped != "" || o.kind == "long snapshot" || o.kind == "operator retry" {
			continue
		}
		if o.at.Before(end) && o.until.Add(time.Second).After(s.at) {
			return true
		}
	}
	return false
}

// backlogTime is how long it takes, at the best pace that was seen then, to do
// what was pending when the fault came: lanes take turns.
func backlogTime(times []time.Time, s *strike) time.Duration {
	best := 1
	for second := s.ref; second.Before(s.ref.Add(s.recovery)); second = second.Add(time.Second) {
		from, _ := slices.BinarySearchFunc(times, second, time.Time.Compare)
		to, _ := slices.BinarySearchFunc(times, second.Add(time.Second), time.Time.Compare)
		best = max(best, to-from)
	}
	return min(time.Duration(float64(s.pending)/float64(best)*float64(time.Second)), 10*time.Second)
}

// longestGap is the longest time in a span in which nothing took effect at all.
func longestGap(times []time.Time, from, to time.Time) (gap time.Duration) {
	i, _ := slices.BinarySearchFunc(times, from, time.Time.Compare)
	for i = max(i, 1); i < len(times) && times[i-1].Before(to); i++ {
		gap = max(gap, times[i].Sub(times[i-1]))
	}
	return gap
}

// longestIngest is the longest time from producing to storing of a record that
// was on its way during the fault.
func (w *world) longestIngest(f *facts, s *strike) (longest time.Duration) {
	for _, x := range f.inbox {
		if x.received.After(s.at) && x.occurred.Before(s.until.Add(s.limit)) {
			longest = max(longest, x.received.Sub(x.occurred))
		}
	}
	return longest
}
