package ordering

import (
	"context"
	"sync"
	"time"
)

// sweeper finds lanes in the database: those whose backoff has ended, and those
// that notifications missed or that there was no room for.
type sweeper struct {
	p     *Processor
	now   chan struct{} // sweep now
	look  chan struct{} // look at due again
	after int64         // where the next page begins
	turns int

	mu  sync.Mutex
	due time.Time // when the next backoff ends, as far as is known; zero: look
}

// page is how many lanes a sweep reads at once.
const page = 1000

// restSweep is the least time between two sweeps, however many are asked for.
const restSweep = 10 * time.Millisecond

func newSweeper(p *Processor) *sweeper {
	return &sweeper{p: p, now: make(chan struct{}, 1), look: make(chan struct{}, 1)}
}

// soon has a sweep begin now.
func (s *sweeper) soon() { signal(s.now) }

// dueIn says that a backoff ends in d.
func (s *sweeper) dueIn(d time.Duration) {
	at := time.Now().Add(d)
	s.mu.Lock()
	sooner := s.due.IsZero() || at.Before(s.due)
	if sooner {
		s.due = at
	}
	s.mu.Unlock()
	if sooner {
		signal(s.look)
	}
}

// untilDue is how long until the next backoff ends, at most limit.
func (s *sweeper) untilDue(limit time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.due.IsZero() {
		return limit
	}
	return max(min(time.Until(s.due), limit), time.Millisecond)
}

func (s *sweeper) run(ctx context.Context) {
	var last time.Time
	next := time.Now()
	for {
		if err := s.dueLanes(ctx); err != nil {
			s.failed(ctx, err)
		}
		if !time.Now().Before(next) {
			if err := s.sweep(ctx); err != nil {
				s.failed(ctx, err)
			}
			last = time.Now()
			next = last.Add(s.p.cfg.Sweep)
		}
		timer := time.NewTimer(s.untilDue(time.Until(next)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-s.look:
		case <-s.now:
			next = last.Add(restSweep)
		case <-s.p.sched.refill:
			next = last.Add(restSweep)
		}
		timer.Stop()
	}
}

func (s *sweeper) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		s.p.outage.wait(ctx, err)
	}
}

// dueLanes wakes the lanes whose backoff has ended.
func (s *sweeper) dueLanes(ctx context.Context) error {
	s.mu.Lock()
	wait := !s.due.IsZero() && time.Now().Before(s.due)
	s.mu.Unlock()
	if wait {
		return nil
	}
	var lanes []int64
	var next *time.Duration
	share := s.p.share.Load()
	if err := s.p.pool.QueryRow(ctx, s.p.sql.due, share.index, share.of, page).Scan(&lanes, &next); err != nil {
		return err
	}
	s.p.sched.wake(lanes, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(lanes) > 0: // those that were not woken for lack of room are due still
		s.due = time.Now().Add(20 * time.Millisecond)
	case next != nil:
		s.due = time.Now().Add(*next)
	default:
		s.due = time.Now().Add(s.p.cfg.Sweep)
	}
	return nil
}

// sweep reads pending lanes, page after page, for as long as there is room.
func (s *sweeper) sweep(ctx context.Context) error {
	share := *s.p.share.Load()
	s.turns++
	total, waiting := s.p.sched.tracked()
	if s.p.cfg.UntilIdle && total == 0 || waiting == 0 && s.turns%3 == 0 {
		// Nothing to do here: look whether another process cannot keep up.
		share.index, share.of = 0, 1
	}
	found := 0
	for s.p.sched.room() > 0 {
		lanes, err := s.page(ctx, share)
		if err != nil {
			return err
		}
		found += len(lanes)
		s.p.sched.wake(lanes, true)
		if len(lanes) < page {
			s.after = 0
			break
		}
		s.after = lanes[len(lanes)-1]
	}
	if s.p.cfg.UntilIdle && share.of == 1 && found == 0 && total == 0 {
		return s.checkIdle(ctx)
	}
	return nil
}

func (s *sweeper) page(ctx context.Context, share share) ([]int64, error) {
	rows, err := s.p.pool.Query(ctx, s.p.sql.sweep, s.after, share.index, share.of, page)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lanes []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		lanes = append(lanes, id)
	}
	return lanes, rows.Err()
}

// checkIdle ends the run if nothing can run any more: no lane is pending, and
// none backs off.
func (s *sweeper) checkIdle(ctx context.Context) error {
	var lanes []int64
	var next *time.Duration
	if err := s.p.pool.QueryRow(ctx, s.p.sql.due, 0, 1, page).Scan(&lanes, &next); err != nil {
		return err
	}
	if total, _ := s.p.sched.tracked(); total == 0 && len(lanes) == 0 && next == nil && s.after == 0 {
		select {
		case <-s.p.idle:
		default:
			close(s.p.idle)
		}
	}
	return nil
}
