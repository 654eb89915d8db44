package ordering

import (
	"sync"
	"time"
)

// ramp says how many workers may have lanes at once. A worker that joins in opens
// a connection, in which the server plans each step anew: some 15 ms of its time,
// as much as a thousand quick events take. So a few begin, and others join when
// none of those comes back, as with slow handlers, or when there has been more to
// do than they can do for a while. Connections that are open and free cost
// nothing: whoever would have one of them joins at once.
type ramp struct {
	workers int
	idle    func() int // connections that are open and free
	more    func()     // some worker may take lanes now

	mu      sync.Mutex
	allowed int
	timer   *time.Timer // runs while lanes wait for a worker that may take them
	came    bool        // a worker came back since the timer was set
	short   int         // how often in a row the timer found that lanes still wait
	ended   bool
}

const (
	rampStart = 4                      // workers
	rampLook  = 200 * time.Millisecond // if none comes back for so long, twice as many may run
	rampShort = 2                      // looks after which one more may run
)

func newRamp(workers int, idle func() int, more func()) *ramp {
	return &ramp{workers: workers, idle: idle, more: more, allowed: min(rampStart, workers)}
}

// room is how many workers may have lanes, when so many have.
func (r *ramp) room(busy int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.allowed == r.workers {
		return r.workers
	}
	return min(r.workers, max(r.allowed, busy+r.idle()))
}

// wait hears that lanes wait for want of room.
func (r *ramp) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil && !r.ended && r.allowed < r.workers {
		r.came = false
		r.timer = time.AfterFunc(rampLook, r.grow)
	}
}

// back hears that a worker came back, and whether it left lanes waiting.
func (r *ramp) back(waiting bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.came = true
	if !waiting {
		r.short = 0
	}
}

// grow has further workers join, if it is time. If lanes wait still, somebody says so.
func (r *ramp) grow() {
	r.mu.Lock()
	r.timer = nil
	r.short++
	switch {
	case !r.came:
		r.allowed, r.short = min(2*r.allowed, r.workers), 0
	case r.short >= rampShort:
		r.allowed, r.short = min(r.allowed+1, r.workers), 0
	}
	r.mu.Unlock()
	r.more()
}

func (r *ramp) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	if r.timer != nil {
		r.timer.Stop()
	}
}
