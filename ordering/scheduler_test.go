package ordering

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// warm has a connection for every worker.
func warm() int { return 1000 }

func ids(n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = int64(i + 1)
	}
	return list
}

// again is what a worker leaves of a lane with events to run; done what it
// leaves of one without.
func again(l *lane) { l.loaded, l.more, l.events = true, true, nil }
func done(l *lane)  { l.loaded, l.more, l.events = true, false, nil }

// A lane whose events never end gets one turn while each of the others gets one.
func TestEachLaneGetsItsTurn(t *testing.T) {
	t.Parallel()
	for _, group := range []int{1, 16} {
		t.Run(fmt.Sprint("group=", group), func(t *testing.T) {
			t.Parallel()
			const lanes, turns = 1000, 3
			s := newScheduler(1, group, warm)
			s.wake(ids(lanes), false)
			had := map[int64]int{}
			for range 2 * lanes * turns {
				if len(had) == lanes && slices.Min(values(had)) == turns {
					break
				}
				taken := s.tryTake()
				for _, l := range taken {
					had[l.id]++
					if again(l); l.id != 500 && had[l.id] == turns {
						done(l)
					}
				}
				s.put(taken)
			}
			if len(had) < lanes || had[500] > turns+1 {
				t.Errorf("%d lanes had turns, the one without an end %d of them while the others had %d", len(had), had[500], turns)
			}
		})
	}
}

func values(m map[int64]int) []int {
	var list []int
	for _, v := range m {
		list = append(list, v)
	}
	return list
}

// Lanes that are new get their turn among those that are busy.
func TestNewLaneAmongBusyOnes(t *testing.T) {
	t.Parallel()
	s := newScheduler(4, 16, warm)
	s.wake(ids(200), false)
	s.wake([]int64{999}, false)
	for turns := range 200 {
		taken := s.tryTake()
		for _, l := range taken {
			if l.id == 999 {
				return
			}
			again(l)
		}
		if s.put(taken); turns > 200/4 {
			break
		}
	}
	t.Error("the new lane has not had its turn after each of the others had one")
}

// Lanes that were slow or failed share a turn with nobody.
func TestLanesOnTheirOwn(t *testing.T) {
	t.Parallel()
	s := newScheduler(1, 16, warm)
	s.wake(ids(40), false)
	for _, id := range []int64{1, 2, 7} {
		s.lanes[id].alone = 1
	}
	taken := 0
	for taken < 40 {
		lanes := s.tryTake()
		taken += len(lanes)
		for _, l := range lanes {
			if l.alone > 0 && len(lanes) > 1 {
				t.Errorf("lane %d shares its turn with %d others", l.id, len(lanes)-1)
			}
			done(l)
		}
		s.put(lanes)
	}
}

// With few lanes and many workers, each worker gets a lane.
func TestLightLoadIsSpread(t *testing.T) {
	t.Parallel()
	s := newScheduler(8, 16, warm)
	s.wake(ids(8), false)
	for range 8 {
		if n := len(s.tryTake()); n != 1 {
			t.Fatalf("a worker took %d lanes, want 1", n)
		}
	}
}

func TestNothingIsTakenAfterStop(t *testing.T) {
	t.Parallel()
	s := newScheduler(1, 1, warm)
	s.wake(ids(2), false)
	s.stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if taken := s.take(ctx); taken != nil {
		t.Errorf("took %d lanes after stop", len(taken))
	}
}

// Lanes that there is no room for are asked for again when there is.
func TestTurnedAwayLanesAreAskedForAgain(t *testing.T) {
	t.Parallel()
	s := newScheduler(1, 16, warm)
	if added := s.wake(ids(maxTracked+10), true); added != maxTracked {
		t.Fatalf("%d lanes were taken up, want %d", added, maxTracked)
	}
	if n := s.room(); n != 0 {
		t.Errorf("there is room for %d more", n)
	}
	for lanes := s.tryTake(); len(lanes) > 0; lanes = s.tryTake() {
		for _, l := range lanes {
			done(l)
		}
		s.put(lanes)
	}
	s.settled(s.takeLeft(), nil, nil)
	select {
	case <-s.refill:
	default:
		t.Error("nobody asks for the lanes that were turned away")
	}
}

// schedule is a model of the scheduler: which lanes owe a turn to a wake-up, and
// which are with a worker.
type schedule struct {
	s       *scheduler
	owed    map[int64]bool
	workers [][]*lane
	settler []int64
}

func (m *schedule) running(id int64) bool {
	return slices.ContainsFunc(m.workers, func(lanes []*lane) bool {
		return slices.ContainsFunc(lanes, func(l *lane) bool { return l.id == id })
	})
}

func (m *schedule) wake(t *rapid.T) {
	id := rapid.Int64Range(1, 8).Draw(t, "lane")
	m.s.wake([]int64{id}, rapid.Bool().Draw(t, "swept"))
	m.owed[id] = true
}

func (m *schedule) take(t *rapid.T) {
	taken := m.s.tryTake()
	for _, l := range taken {
		if m.running(l.id) {
			t.Fatalf("lane %d was taken twice", l.id)
		}
		delete(m.owed, l.id)
	}
	if len(taken) > 0 {
		m.workers = append(m.workers, taken)
	}
}

func (m *schedule) put(t *rapid.T) {
	if len(m.workers) == 0 {
		t.Skip("no worker")
	}
	i := rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")
	for _, l := range m.workers[i] {
		switch rapid.IntRange(0, 3).Draw(t, "left with") {
		case 0:
			again(l)
		case 1:
			l.forget()
		default:
			done(l)
		}
		l.alone = rapid.IntRange(0, 1).Draw(t, "alone")
	}
	m.s.put(m.workers[i])
	m.workers = slices.Delete(m.workers, i, i+1)
}

// look is the settler on its way to the database, answered it is back.
func (m *schedule) look(*rapid.T) { m.settler = append(m.settler, m.s.takeLeft()...) }

func (m *schedule) answered(t *rapid.T) {
	var drop, run, again []int64
	for _, id := range m.settler {
		switch rapid.IntRange(0, 2).Draw(t, "answer") {
		case 0:
			drop = append(drop, id)
		case 1:
			run = append(run, id)
		default:
			again = append(again, id)
		}
	}
	m.settler = nil
	m.s.settled(drop, run, again)
}

func (m *schedule) check(t *rapid.T) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	queue := m.s.ready[m.s.first:]
	for id, l := range m.s.lanes {
		waiting := 0
		for _, q := range queue {
			if q == l {
				waiting++
			}
		}
		noted := slices.Contains(m.s.left, id) || slices.Contains(m.settler, id)
		switch {
		case waiting > 1, (waiting == 1) != (l.place == queued):
			t.Fatalf("lane %d is %d times in the queue, its place is %d", id, waiting, l.place)
		case m.running(id) != (l.place == running):
			t.Fatalf("lane %d is with a worker: %v, its place is %d", id, m.running(id), l.place)
		case l.place == left && !noted:
			t.Fatalf("lane %d is left and the settler does not know", id)
		case m.owed[id] && l.place == left:
			t.Fatalf("lane %d was woken and nobody runs it", id)
		}
	}
	for id := range m.owed {
		if m.s.lanes[id] == nil {
			t.Fatalf("lane %d was woken and is forgotten", id)
		}
	}
}

// No wake-up is lost and no lane is with two workers, however wake-ups, workers
// and the settler meet.
func TestSchedulerModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &schedule{s: newScheduler(rapid.IntRange(1, 3).Draw(t, "workers"), rapid.IntRange(1, 4).Draw(t, "group"), warm), owed: map[int64]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"wake": m.wake, "take": m.take, "put": m.put, "look": m.look, "answered": m.answered, "": m.check,
		})
		for len(m.workers) > 0 || len(m.s.ready) > m.s.first {
			for m.take(t); len(m.workers) > 0; {
				for _, l := range m.workers[0] {
					done(l)
				}
				m.s.put(m.workers[0])
				m.workers = m.workers[1:]
			}
			m.check(t)
		}
		if len(m.owed) > 0 {
			t.Fatalf("lanes that were woken and never ran: %v", m.owed)
		}
	})
}

// A lane that runs while the shares change is another process's when it is back,
// unless it helps that one, or something of it is still to be written down.
func TestLanesOfOtherSharesAreLeft(t *testing.T) {
	t.Parallel()
	s := newScheduler(1, 16, warm)
	s.wake(ids(8), false)
	s.help([]int64{7})
	taken := s.tryTake()
	s.keep(share{index: 0, of: 2})
	for _, l := range taken {
		again(l)
		switch l.id {
		case 3:
			l.fail(1, context.Canceled)
		case 5:
			l.stale = true
		}
	}
	s.put(taken)
	var left []int64
	for _, l := range s.tryTake() {
		left = append(left, l.id)
	}
	if want := []int64{2, 3, 4, 5, 6, 7, 8}; !slices.Equal(left, want) {
		t.Errorf("lanes %v run on, want %v", left, want)
	}
}

// Whatever a lane shows before this process has held it is a trace of somebody
// else; afterwards it may be its own.
func TestTraceIsSomebodyElses(t *testing.T) {
	t.Parallel()
	read := func(l *lane, traced bool) bool {
		if err := (&row{traced: traced}).into(l, 16); err != nil {
			t.Error(err)
		}
		return l.traced
	}
	l := &lane{}
	if read(l, false) || !read(l, true) || read(l, false) {
		t.Error("a lane that was not run here does not show what was read last")
	}
	if l.ran = true; read(l, true) {
		t.Error("this process takes its own run for another's")
	}
}
