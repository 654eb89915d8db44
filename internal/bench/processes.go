package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// shareTime is how long processes get to agree who looks after which lanes.
const shareTime = 1500 * time.Millisecond

// processes is W9: two and four processes, 16 workers each, against one. They run
// already when 60,000 events of 1,000 aggregates are committed in one piece.
func processes(ctx context.Context, b *bench) ([]Result, error) {
	aggregates, perLane := spread(b.events(60_000), 1000, 60)
	s, err := b.newStage(ctx, aggregates, 3)
	if err != nil {
		return nil, err
	}
	defer s.close()
	newLine := func(name string, size int) *line {
		return &line{scenario: "W9 " + name, events: aggregates * perLane, aggregates: aggregates, workers: size * workers,
			batch: batch, reference: "one process", goal: goal{value: 1}}
	}
	lines := []*line{newLine("two processes", 2), newLine("four processes", 4)}
	lanes := group{to: aggregates}
	err = b.each(func(_ int, note func(string)) error {
		note("one process")
		reference, _, err := s.runFleet(ctx, &lanes, 1, perLane)
		if err != nil {
			return err
		}
		for i, l := range lines {
			note(l.scenario)
			own, violations, err := s.runFleet(ctx, &lanes, 2<<i, perLane)
			if err != nil {
				return err
			}
			l.violations += violations
			l.compare(own, reference)
		}
		return nil
	})
	return results(lines...), err
}

// runFleet has so many processes run perLane events of each lane.
func (s *stage) runFleet(ctx context.Context, lanes *group, size, perLane int) (own side, violations int64, err error) {
	f, err := s.startFleet(size)
	if err != nil {
		return own, 0, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := s.checkpoint(ctx); err != nil {
		return own, 0, err
	}
	if err := f.all(func(p *process) error { return p.run(ctx) }); err != nil {
		return own, 0, err
	}
	pause(ctx, shareTime)
	for _, each := range []int{max(1, perLane/5), perLane} { // to warm up, then to be timed
		if err := f.all(func(p *process) error { return p.arm(ctx) }); err != nil {
			return own, 0, err
		}
		if err := s.feedAtOnce(ctx, lanes, each); err != nil {
			return own, 0, err
		}
		n := int64(lanes.size() * each)
		began, ended, err := f.processed(ctx, n)
		if err != nil {
			return own, 0, fmt.Errorf("%d processes: %w", size, err)
		}
		own = side{n, ended.Sub(began)}
		if violations, err = s.audited(ctx, violations, n); err != nil {
			return own, 0, err
		}
		pause(ctx, 2*settleTime) // what was run is marked as done
	}
	return own, violations, f.all(func(p *process) error { _, err := p.stop(ctx); return err })
}

// settleTime is about as long as lanes are left before they are marked as done.
const settleTime = 250 * time.Millisecond

func (s *stage) audited(ctx context.Context, before, more int64) (int64, error) {
	found, err := s.own.audit(ctx, s.pool, more)
	return before + found, err
}

// feedAtOnce stores events in one transaction, so that all are there at once.
func (s *stage) feedAtOnce(ctx context.Context, lanes *group, perLane int) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		return feedTo(ctx, inbox.NewStore(tx, s.schema), lanes.from, lanes.to, lanes.fed, formSQL, perLane)
	})
	lanes.fed += int64(perLane)
	return err
}

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
