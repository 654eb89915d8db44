package handlers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// A call that has to wait holds a worker and a transaction. So it waits for no
// longer than briefly; for longer than that its event is put off with Later, and
// its lane waits without holding anything.
const (
	briefly     = 50 * time.Millisecond
	longestWait = time.Minute
)

// RateLimit lets calls begin so often a second, on the average, in this process,
// and burst at once. It is one limit for everything that this middleware wraps:
// give it to one type with WithMiddleware, to several that share it by giving
// them the same value, or to all with Use. A call of a batched handler counts
// once.
//
// An event that must wait for more than a moment keeps its place and is put off
// with Later; no attempt is used up. It runs when its time has come or a little
// after, so that two may come close together: stay a bit below a limit of the
// other side.
func RateLimit(perSecond float64, burst int) Middleware {
	if !(perSecond > 0) || burst < 1 {
		panic(fmt.Sprintf("handlers: RateLimit needs a rate above 0 and a burst of at least 1, not %g and %d", perSecond, burst))
	}
	limit := &limiter{rate: rate.NewLimiter(rate.Limit(perSecond), burst)}
	reason := fmt.Errorf("no more than %g calls a second are allowed here", perSecond)
	return func(next Handler) Handler {
		return func(ctx context.Context, call *Call) error {
			wait := limit.wait(call.Events[0].ID, time.Now())
			if wait > briefly {
				return Later(reason, wait)
			}
			if err := sleep(ctx, wait); err != nil {
				return err
			}
			return next(ctx, call)
		}
	}
}

// limiter is a rate limit that remembers which events it has promised a time.
type limiter struct {
	rate *rate.Limiter
	mu   sync.Mutex
	due  waiting
}

// wait is how long the event has to wait. If that is more than briefly, it has a
// place from then on, unless the queue is long.
func (l *limiter) wait(event string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due.prune(now)
	if at, promised := l.due.at[event]; promised {
		left := at.Sub(now)
		if left <= briefly {
			delete(l.due.at, event)
		}
		return max(left, 0)
	}
	place := l.rate.ReserveN(now, 1)
	wait := place.DelayFrom(now)
	switch {
	case wait > longestWait:
		place.CancelAt(now)
		return longestWait + jitter(longestWait/4)
	case wait > briefly:
		l.due.note(event, now.Add(wait))
	}
	return wait
}

// Concurrency lets n calls run at once in this process. It is one limit for
// everything that this middleware wraps, as with RateLimit. An event that finds
// no room for more than a moment is put off with Later, for as long as room may
// take to come; no attempt is used up. Queued handlers pass: they do nothing
// while they run.
func Concurrency(n int) Middleware {
	if n < 1 {
		panic(fmt.Sprintf("handlers: Concurrency needs at least 1, not %d", n))
	}
	room := &room{free: make(chan struct{}, n)}
	reason := fmt.Errorf("%d calls run already, and no more are allowed here at once", n)
	return func(next Handler) Handler {
		return func(ctx context.Context, call *Call) error {
			if call.Form() == Queued {
				return next(ctx, call)
			}
			event := call.Events[0].ID
			entered, err := room.enter(ctx)
			switch {
			case err != nil:
				return err
			case !entered:
				return Later(reason, room.refuse(event, time.Now()))
			}
			began := time.Now()
			defer func() { room.leave(event, time.Since(began)) }()
			return next(ctx, call)
		}
	}
}

// room is a place for so many calls at once.
type room struct {
	free    chan struct{} // holds one for each call that runs
	mu      sync.Mutex
	refused waiting
	typical time.Duration // of a call
}

func (r *room) enter(ctx context.Context) (bool, error) {
	select {
	case r.free <- struct{}{}:
		return true, nil
	default:
	}
	patience := time.NewTimer(briefly)
	defer patience.Stop()
	select {
	case r.free <- struct{}{}:
		return true, nil
	case <-patience.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// refuse is how long an event waits that found no room: about as long as those
// take that wait already.
func (r *room) refuse(event string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused.prune(now)
	perCall := r.typical / time.Duration(cap(r.free))
	wait := min(max(perCall*time.Duration(len(r.refused.at)+1), 2*briefly), longestWait)
	wait += jitter(wait / 4)
	r.refused.note(event, now.Add(wait))
	return wait
}

func (r *room) leave(event string, took time.Duration) {
	<-r.free
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.refused.at, event)
	r.typical += (took - r.typical) / 4
}

// waiting is which events wait, and until when.
type waiting struct {
	at     map[string]time.Time
	pruned time.Time
}

func (w *waiting) note(event string, until time.Time) {
	if w.at == nil {
		w.at = map[string]time.Time{}
	}
	w.at[event] = until
}

// prune forgets, now and then, events that did not come back: another process
// runs them, or an operator skipped them.
func (w *waiting) prune(now time.Time) {
	if now.Sub(w.pruned) < longestWait {
		return
	}
	w.pruned = now
	for event, until := range w.at {
		if now.Sub(until) > longestWait {
			delete(w.at, event)
		}
	}
}

// jitter is up to d, so that those who wait do not come back together.
func jitter(d time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(d) + 1)) }

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
