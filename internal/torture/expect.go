//go:build linux

package main

// expectation is what must be true at the end, by the producer's own book.
type expectation struct {
	done      []bool          // by the event's index: it has exactly one effect; else none
	stuckAt   map[int32]int   // aggregate to the event it is stuck at
	forwarded map[string]bool // ids of events that handlers added
	sent      int
}

// stored is how many events are in the inbox.
func (e *expectation) stored() int { return e.sent + len(e.forwarded) }

// expect goes through the events in the order they were made, which is their
// order within their aggregates too.
func (s *stream) expect() *expectation {
	e := &expectation{done: make([]bool, len(s.events)), stuckAt: map[int32]int{}, forwarded: map[string]bool{}}
	for i := range s.events {
		m := &s.events[i]
		if !m.sent {
			continue
		}
		e.sent++
		if _, stuck := e.stuckAt[m.aggregate]; stuck {
			continue
		}
		if m.final() {
			e.stuckAt[m.aggregate] = i
			continue
		}
		e.done[i] = true
		if m.kind == forwarding {
			e.forwarded[forwardedID(s.id(i))] = true
		}
	}
	return e
}
