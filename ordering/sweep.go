package ordering

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// sweeper finds lanes in the database: those whose backoff has ended, and those
// that notifications missed or that there was no room for.
type sweeper struct {
	p     *Processor
	now   chan struct{} // sweep now
	look  chan struct{} // look at due again
	after int64         // where the next page begins

	seen   map[int64]int64 // lanes of other shares and how far they were at seenAt
	seenAt time.Time

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
		if began := time.Now(); !began.Before(next) {
			if err := s.sweep(ctx); err != nil {
				s.failed(ctx, err)
			}
			// Dead entries that somebody's old snapshot keeps can make a sweep long.
			took := time.Since(began)
			last = time.Now()
			next = last.Add(max(s.p.cfg.Sweep, 10*took))
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
		// Other processes begin backoffs, too, that end sooner.
		s.due = time.Now().Add(min(*next, s.p.cfg.Sweep))
	default:
		s.due = time.Now().Add(s.p.cfg.Sweep)
	}
	return nil
}

// sweep reads the pending lanes of this process's share, page after page, for as
// long as there is room. With nothing to do it helps others, and looks whether
// everything is done.
func (s *sweeper) sweep(ctx context.Context) error {
	share := *s.p.share.Load()
	from, found := s.after, 0
	for s.p.sched.room() > 0 {
		lanes, err := s.page(ctx, share)
		if err != nil {
			return err
		}
		found += len(lanes)
		if added := s.p.sched.wake(lanes, true); added > 0 {
			tell(&s.p.hooks, s.p.hooks.swept, func(hook SweptHook) { hook.Swept(added) })
		}
		if len(lanes) < page {
			s.after = 0
			break
		}
		s.after = lanes[len(lanes)-1]
	}
	if total, waiting := s.p.sched.tracked(); waiting > 0 || total > s.p.cfg.Workers {
		s.seen = nil
		return nil
	}
	others, err := s.help(ctx, share)
	switch {
	case err != nil || !s.p.cfg.UntilIdle || found+others > 0:
		return err
	case from > 0: // lanes may have been turned away before that
		s.soon()
		return nil
	}
	return s.checkIdle(ctx)
}

func (s *sweeper) page(ctx context.Context, share share) ([]int64, error) {
	rows, err := s.p.pool.Query(ctx, s.p.sql.sweep, s.after, share.index, share.of, page)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// helpAfter is how long a lane of another process's share must stand still,
// with work to do, before a process that has nothing to do runs it.
const helpAfter = time.Second

// help runs lanes that other processes are slow to run: those that are no
// further than when they were last looked at. It answers how many lanes of other
// shares are pending, as far as it looked.
func (s *sweeper) help(ctx context.Context, share share) (pending int, err error) {
	if share.of == 1 {
		return 0, nil
	}
	rows, err := s.p.pool.Query(ctx, s.p.sql.stalled, 0, share.index, share.of, page)
	if err != nil {
		return 0, err
	}
	seen := make(map[int64]int64)
	var lane, cursor int64
	var still []int64
	if _, err := pgx.ForEachRow(rows, []any{&lane, &cursor}, func() error {
		pending++
		seen[lane] = cursor
		if before, ok := s.seen[lane]; ok && before == cursor {
			still = append(still, lane)
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if s.seen != nil && time.Since(s.seenAt) < helpAfter {
		return pending, nil
	}
	s.p.sched.help(still)
	s.seen, s.seenAt = seen, time.Now()
	return pending, nil
}

// fewProbes is how many probes an event type gets that is paused before a run
// until idle ends without it.
const fewProbes = 4

// checkIdle ends the run if nothing can run any more: no lane is pending, and
// none backs off, and no breaker has just opened.
func (s *sweeper) checkIdle(ctx context.Context) error {
	var lanes []int64
	var next *time.Duration
	if err := s.p.pool.QueryRow(ctx, s.p.sql.due, 0, 1, page).Scan(&lanes, &next); err != nil {
		return err
	}
	var young bool
	if err := s.p.pool.QueryRow(ctx, s.p.sql.youngBreakers, fewProbes, s.p.types).Scan(&young); err != nil || young {
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
