package ordering

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inboxd/inboxd/internal/fault"
)

// share is the part of the lanes that this process looks after: those whose
// number, divided by the count of processes, leaves its index. Shares keep
// processes out of each other's way; they are no part of correctness, for two
// processes that take the same lane meet at claim.
type share struct{ index, of int64 }

// mine picks the lanes of this process's share.
func (p *Processor) mine(lanes []int64) []int64 {
	s := p.share.Load()
	if s.of == 1 {
		return lanes
	}
	kept := make([]int64, 0, len(lanes)/int(s.of)+1)
	for _, id := range lanes {
		if id%s.of == s.index {
			kept = append(kept, id)
		}
	}
	return kept
}

// beatEvery is how often a process says that it lives. One that was not heard
// of for freshFor has no share any more.
const (
	beatEvery = 500 * time.Millisecond
	freshFor  = 2500 * time.Millisecond
)

// register enters the process, waiting for the database if need be. False: ctx
// ended first.
//
// An error is one that waiting does not mend: the set-up is wrong.
func (p *Processor) register(ctx context.Context) (bool, error) {
	for ctx.Err() == nil {
		id, err := p.registerOnce(ctx)
		if err == nil {
			p.id.Store(id)
			p.outage.over()
			return true, nil
		}
		if ctx.Err() == nil && fault.Of(err) == fault.Event {
			return false, fmt.Errorf("ordering: run lanes: %w", err)
		}
		p.outage.wait(ctx, err)
	}
	return false, nil
}

func (p *Processor) registerOnce(ctx context.Context) (id int32, err error) {
	if err := p.checkSchema(ctx); err != nil {
		return 0, err
	}
	err = p.pool.QueryRow(ctx, p.sql.register, p.cfg.Name, p.channel()).Scan(&id, nil)
	return id, err
}

// farewell is how long a stop waits for the database, to leave in order.
const farewell = time.Second

// unregister leaves, so that the others take the lanes over at once.
func (p *Processor) unregister() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	if _, err := p.pool.Exec(ctx, p.sql.unregister, p.id.Load(), p.channel()); err != nil {
		p.log.Debug("could not unregister; the others notice within seconds", "error", err.Error())
	}
}

// beat keeps the process known, learns who shares the lanes, ends the sessions of
// processes that are lost, and tends to what no turn does.
func (p *Processor) beat(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.beatNow:
		}
		if err := p.beatOnce(ctx); err != nil && ctx.Err() == nil {
			p.outage.wait(ctx, err)
		}
		next := beatEvery
		if p.breaker.open.Load() != nil {
			next = min(next, p.cfg.Breaker.Probe) // a probe may be due
		}
		timer.Reset(next)
	}
}

func (p *Processor) beatOnce(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, p.cfg.Lease)
	defer cancel()
	members, lost, err := p.heartbeat(ctx)
	if err != nil {
		return err
	}
	p.count.beats.Add(1)
	p.outage.over()
	if len(lost) > 0 {
		var ended int
		if err := p.pool.QueryRow(limited, p.sql.evict, lost, p.cfg.Lease).Scan(&ended); err != nil {
			return err
		}
		p.log.Warn("processes were not heard of for the lease; their sessions were ended and their lanes run here",
			"processes", lost, "lease", p.cfg.Lease.String(), "sessions", ended)
		tell(&p.hooks, p.hooks.takenOver, func(hook TakenOverHook) { hook.TakenOver(lost, ended) })
	}
	p.quiet.tick(time.Now())
	p.reshare(members)
	return p.tend(limited)
}

// heartbeat says that the process lives. A stop lets it end: one that is given up
// may reach the server after the farewell, and enter the process once more.
func (p *Processor) heartbeat(ctx context.Context) (members, lost []int32, err error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Lease)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(farewell, cancel) })()
	err = p.pool.QueryRow(limited, p.sql.heartbeat,
		p.id.Load(), p.cfg.Name, p.sched.runningLong(), p.cfg.Lease, freshFor).Scan(&members, &lost)
	return members, lost, err
}

func (p *Processor) reshare(members []int32) {
	index := slices.Index(members, p.id.Load())
	if index < 0 {
		return // not fresh: this very beat was slow, the next one tells
	}
	next := share{int64(index), int64(len(members))}
	if *p.share.Load() != next {
		p.share.Store(&next)
		p.sched.keep(next)
		p.log.Info("lanes shared anew", "processes", next.of, "share", next.index+1)
		p.sweeper.soon()
	}
}
