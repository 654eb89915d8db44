package ordering

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// none has no open connection that is free.
func none() int { return 0 }

// crowd is workers that run lanes for a while, again and again.
type crowd struct {
	s       *scheduler
	running atomic.Int64
	most    atomic.Int64
}

// begin starts the workers; each turn takes as long as takes says, and the lanes
// have events for ever.
func (c *crowd) begin(ctx context.Context, workers int, takes func() time.Duration) {
	for range workers {
		go func() {
			for {
				lanes := c.s.take(ctx)
				if lanes == nil {
					return
				}
				c.most.Store(max(c.most.Load(), c.running.Add(1)))
				select {
				case <-time.After(takes()):
				case <-ctx.Done():
				}
				for _, l := range lanes {
					again(l)
				}
				c.running.Add(-1)
				c.s.put(lanes)
			}
		}()
	}
}

// inBubble runs the workers on a thousand lanes for a time and answers how many
// ran at once, at most.
func inBubble(t *testing.T, idle func() int, turn, length time.Duration) (most int64) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &crowd{s: newScheduler(16, 1, idle)}
		c.begin(ctx, 16, func() time.Duration { return turn })
		c.s.wake(ids(1000), false)
		time.Sleep(length)
		most = c.most.Load()
		c.s.stop()
		cancel()
		synctest.Wait()
	})
	return most
}

// Quick turns are run by a few workers at first, by all of them in time; slow ones
// have all of them soon, and so has whoever has the connections already.
func TestWorkersJoinAsTheyAreNeeded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		idle         func() int
		turn, length time.Duration
		least, most  int64
	}{
		{"quick, a moment", none, 5 * time.Millisecond, 150 * time.Millisecond, 4, 4},
		{"quick, for a while", none, 5 * time.Millisecond, 2 * time.Second, 6, 12},
		{"quick, for long", none, 5 * time.Millisecond, 10 * time.Second, 16, 16},
		{"slow", none, time.Minute, 500 * time.Millisecond, 16, 16},
		{"quick, with connections", warm, 5 * time.Millisecond, 20 * time.Millisecond, 16, 16},
		{"quick, with six connections", func() int { return 6 }, time.Hour, 20 * time.Millisecond, 16, 16},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := inBubble(t, test.idle, test.turn, test.length); got < test.least || got > test.most {
				t.Errorf("%d workers ran at once, want %d to %d", got, test.least, test.most)
			}
		})
	}
}

// A pause in the work is no shortage: who is refused now and then stays few.
func TestFewWorkersAreEnoughForBursts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newScheduler(16, 1, none)
		var running, most atomic.Int64
		for range 16 {
			go func() {
				for lanes := s.take(ctx); lanes != nil; lanes = s.take(ctx) {
					most.Store(max(most.Load(), running.Add(1)))
					time.Sleep(time.Millisecond)
					for _, l := range lanes {
						done(l)
					}
					running.Add(-1)
					s.put(lanes)
				}
			}()
		}
		for range 100 {
			s.wake(ids(30), false)
			time.Sleep(time.Second)
		}
		if got := most.Load(); got > rampStart {
			t.Errorf("%d workers ran at once, want %d", got, rampStart)
		}
		s.stop()
		cancel()
		synctest.Wait()
	})
}

// A stop leaves no timer behind that would have workers join.
func TestRampEndsWithTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var nudged atomic.Int64
		r := newRamp(16, none, func() { nudged.Add(1) })
		r.wait()
		r.end()
		r.wait()
		time.Sleep(time.Minute)
		if nudged.Load() != 0 || r.room(0) != rampStart {
			t.Errorf("after the end %d workers were called, and there is room for %d", nudged.Load(), r.room(0))
		}
	})
}
