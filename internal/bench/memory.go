package bench

import (
	"context"
	"errors"
)

// memory is W8: the most memory that a process has resident that runs 50,000 of
// 1,000,000 events that wait in 100,000 lanes. Each round has a new process.
func memory(ctx context.Context, b *bench) ([]Result, error) {
	aggregates, perLane := spread(b.events(1_000_000), 100_000, 10)
	s, err := b.newStage(ctx, aggregates, 4)
	if err != nil {
		return nil, err
	}
	defer s.close()
	waiting := aggregates * perLane
	l := &line{scenario: "W8", events: waiting, aggregates: aggregates, workers: workers, batch: batch,
		goal: goal{value: 100, below: true, unit: "MiB"}}
	run := max(1, int64(waiting)/20)
	b.progress("storing %d events in %d lanes", waiting, aggregates)
	if err := s.feed(ctx, &group{to: aggregates}, formSQL, perLane); err != nil {
		return nil, err
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	err = b.each(func(_ int, note func(string)) error {
		note("memory")
		own, peak, violations, err := s.measureMemory(ctx, run)
		if err != nil {
			return err
		}
		l.violations += violations
		l.rates = append(l.rates, own.rate())
		l.ratios = append(l.ratios, float64(peak)/1024)
		return nil
	})
	return results(l), err
}

// measureMemory has a process run n events and answers its peak in KiB.
func (s *stage) measureMemory(ctx context.Context, n int64) (own side, peak, violations int64, err error) {
	p, err := s.startProcess()
	if err != nil {
		return own, 0, 0, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.run(ctx); err != nil {
		return own, 0, 0, err
	}
	began, ended, err := fleet{p}.processed(ctx, n)
	if err != nil {
		return own, 0, 0, err
	}
	last, err := p.now()
	if err != nil {
		return own, 0, 0, err
	}
	own = side{last.Processed, ended.Sub(began)}
	stopped, err := p.stop(ctx)
	if err != nil {
		return own, 0, 0, err
	}
	violations, err = s.own.audit(ctx, s.pool, stopped.Processed)
	return own, stopped.Peak, violations, err
}
