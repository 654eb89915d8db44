package ordering

import (
	"context"
	"sync"
	"time"
)

// maxTracked bounds the lanes that are held in memory. Further ones wait in the
// database, and the sweep brings them in as there is room.
const maxTracked = 16_384

// scheduler holds the lanes that wait for a worker, first in, first out, so that
// a lane with a million events gets its turn no more often than the others.
type scheduler struct {
	group int
	ramp  *ramp
	eager bool // whoever waits for the last lane wants to know at once

	mu      sync.Mutex
	lanes   map[int64]*lane
	ready   []*lane // a queue: ready[first:]
	first   int
	began   map[int64]time.Time // when the turns under way began
	busy    int                 // workers that have lanes
	left    []int64             // lanes for the settler
	full    bool                // a lane was turned away: the sweep has to come by
	nudge   chan struct{}
	settle  chan struct{}
	refill  chan struct{}
	stopped bool
	mine    share // of the lanes
}

// newScheduler makes one for so many workers; idle counts connections that are
// open and free.
func newScheduler(workers, group int, idle func() int) *scheduler {
	s := &scheduler{
		group:  group,
		mine:   share{of: 1},
		lanes:  make(map[int64]*lane),
		began:  make(map[int64]time.Time),
		nudge:  make(chan struct{}, workers),
		settle: make(chan struct{}, 1),
		refill: make(chan struct{}, 1),
	}
	s.ramp = newRamp(workers, idle, func() { signal(s.nudge) })
	return s
}

// wake has the lanes run soon: they may have events to run. It answers how many
// were not known before.
func (s *scheduler) wake(ids []int64, swept bool) (added int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		l := s.lanes[id]
		switch {
		case l == nil && len(s.lanes) >= maxTracked:
			s.full = true
			continue
		case l == nil:
			l = &lane{id: id, swept: swept}
			s.lanes[id] = l
			added++
		case l.place == running:
			l.woken = l.woken || !swept
			l.again = true
			continue
		case l.place == queued:
			l.swept = l.swept && swept
			l.more = true
			continue
		default:
			l.swept = swept
		}
		l.more = true
		s.push(l)
	}
	return added
}

// push queues a lane and sends a worker for it; the mutex is held.
func (s *scheduler) push(l *lane) {
	l.place = queued
	s.ready = append(s.ready, l)
	signal(s.nudge)
}

// signal makes sure that c has something to receive.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take waits for lanes to run and answers some that may share a transaction, or
// none when ctx ends: what waits is divided among the workers that are free, so
// that it is one lane a worker under a light load, and a group when all are busy.
func (s *scheduler) take(ctx context.Context) []*lane {
	for ctx.Err() == nil {
		if taken := s.tryTake(); len(taken) > 0 {
			return taken
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.nudge:
		}
	}
	return nil
}

func (s *scheduler) tryTake() []*lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	waiting := len(s.ready) - s.first
	if s.stopped || waiting == 0 {
		return nil
	}
	room := s.ramp.room(s.busy)
	if s.busy >= room {
		s.ramp.wait()
		return nil
	}
	free := room - s.busy
	want := min(s.group, (waiting+free-1)/free)
	taken := make([]*lane, 0, want)
	for len(taken) < want && s.first < len(s.ready) {
		l := s.ready[s.first]
		if l.alone > 0 && len(taken) > 0 {
			break
		}
		s.ready[s.first] = nil
		s.first++
		l.place, l.woken, l.again = running, false, false
		s.began[l.id] = now
		taken = append(taken, l)
		if l.alone > 0 {
			break
		}
	}
	s.busy++
	if s.first > 64 && s.first*2 > len(s.ready) {
		s.ready = append(s.ready[:0], s.ready[s.first:]...)
		s.first = 0
	}
	switch {
	case s.first == len(s.ready):
	case s.busy < room:
		signal(s.nudge)
	default:
		s.ramp.wait()
	}
	return taken
}

// help has lanes of other processes' shares run here, for as long as they have
// events.
func (s *scheduler) help(ids []int64) {
	s.wake(ids, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if l := s.lanes[id]; l != nil {
			l.helped = true
		}
	}
}

// put gives lanes back after their turn: those that may have events to run go
// to the end of the queue, the others to the settler. A lane that ran while the
// shares changed is left to the process whose it is now: two that run it by turns
// would only meet.
func (s *scheduler) put(lanes []*lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	s.ramp.back(s.first < len(s.ready))
	for _, l := range lanes {
		delete(s.began, l.id)
		if l.again {
			l.more = true
			l.swept = l.swept && !l.woken
		}
		if !s.keeps(l) {
			delete(s.lanes, l.id)
			continue
		}
		if len(l.events) > 0 || l.more || !l.loaded {
			s.push(l)
			continue
		}
		l.place = left
		s.left = append(s.left, l.id)
	}
	if len(s.left) >= settleSoon || s.eager && len(s.left) == len(s.lanes) {
		signal(s.settle)
	}
}

// replace puts new lanes in the place of running ones that were taken away from
// their worker.
func (s *scheduler) replace(lanes []*lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(lanes) > 0 {
		s.busy--
		s.ramp.back(true)
	}
	for _, l := range lanes {
		delete(s.began, l.id)
		s.lanes[l.id] = l
		s.push(l)
	}
}

// keep drops waiting lanes that are not of this process's share: they were taken
// up before the shares changed, and another process looks after them now.
func (s *scheduler) keep(mine share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mine = mine
	kept := s.ready[:0]
	for _, l := range s.ready[s.first:] {
		if s.keeps(l) {
			kept = append(kept, l)
		} else {
			delete(s.lanes, l.id)
		}
	}
	clear(s.ready[len(kept):])
	s.ready, s.first = kept, 0
}

// keeps reports whether a lane stays here: it is of this process's share, helps
// another one, or something of it is still to be written down.
func (s *scheduler) keeps(l *lane) bool {
	return l.id%s.mine.of == s.mine.index || l.helped || l.stale || l.failed != nil
}

// settleSoon is how many lanes the settler takes without waiting for its tick.
const settleSoon = 512

// takeLeft gives the settler the lanes that were left since.
func (s *scheduler) takeLeft() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := s.left
	s.left = nil
	return ids
}

// settled hears what the settler found: lanes to drop, lanes to run after all,
// and lanes to look at again.
func (s *scheduler) settled(drop, run, again []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range drop {
		if l := s.lanes[id]; l != nil && l.place == left {
			delete(s.lanes, id)
		}
	}
	for _, id := range run {
		if l := s.lanes[id]; l != nil && l.place == left {
			l.more = true
			s.push(l)
		}
	}
	for _, id := range again {
		if l := s.lanes[id]; l != nil && l.place == left {
			s.left = append(s.left, id)
		}
	}
	if s.full && len(s.lanes) < maxTracked/2 || s.eager && len(s.lanes) == 0 {
		s.full = false
		signal(s.refill)
	}
}

// room is how many more lanes can be tracked.
func (s *scheduler) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maxTracked - len(s.lanes)
}

// tracked is how many lanes are queued, running or left.
func (s *scheduler) tracked() (total, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes), len(s.ready) - s.first
}

// stop has take answer nothing from now on.
func (s *scheduler) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	s.ramp.end()
}

// runningLong answers the lanes whose turn began a while ago, for people.
func (s *scheduler) runningLong() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	long := []int64{}
	for id, began := range s.began {
		if time.Since(began) > visiblyLong {
			long = append(long, id)
		}
	}
	return long
}

// visiblyLong is when a lane shows as running; shorter turns come and go.
const visiblyLong = 250 * time.Millisecond
