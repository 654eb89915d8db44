package bench

import "context"

// transactions is W3: batch 1, so that each event of 1,000 aggregates has a
// transaction of its own with claim, handler, cursor and ledger, against pgbench
// with as many clients that runs the handler's statement and nothing else.
func transactions(ctx context.Context, b *bench) ([]Result, error) {
	aggregates, perLane := spread(b.events(20_000), 1000, 20)
	events := aggregates * perLane
	s, err := b.newStage(ctx, aggregates, workers+reserve)
	if err != nil {
		return nil, err
	}
	defer s.close()
	reference, err := s.newPgbench(aggregates)
	if err != nil {
		return nil, err
	}
	l := &line{scenario: "W3 sql", events: events, aggregates: aggregates, workers: workers, batch: 1,
		reference: reference.name(), goal: goal{value: 0.8}}
	lanes := group{to: aggregates}
	round := func(perLane int, note func(string)) (own, other side, err error) {
		note(reference.name())
		if err = s.checkpoint(ctx); err != nil {
			return own, other, err
		}
		other, violations, err := reference.run(ctx, workers, aggregates*perLane)
		if err != nil {
			return own, other, err
		}
		l.violations += violations
		note("sql")
		err = s.prepare(ctx, func(ctx context.Context) error { return s.feed(ctx, &lanes, formSQL, perLane) })
		if err != nil {
			return own, other, err
		}
		own, violations, err = s.run(ctx, stint{name: "sql", batch: 1, events: int64(aggregates * perLane)})
		l.violations += violations
		return own, other, err
	}
	if _, _, err := round(max(1, perLane/10), func(string) {}); err != nil {
		return nil, err
	}
	err = b.each(func(_ int, note func(string)) error {
		own, other, err := round(perLane, note)
		if err == nil {
			l.compare(own, other)
		}
		return err
	})
	return results(l), err
}
