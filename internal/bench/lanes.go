package bench

import (
	"context"
	"fmt"
)

// W1 and W2: every form of handler against the textbook loop.

var w1Goals = map[string]float64{formOn: 6, formSQL: 14, formOnQueue: 14, formOnBatch: 20}
var w2Goals = map[string]float64{formOn: 8, formSQL: 40, formOnQueue: 40, formOnBatch: 80}

// manyLanes is W1: 20,000 events of 1,000 aggregates.
func manyLanes(ctx context.Context, b *bench) ([]Result, error) {
	names, each := spread(b.events(20_000), 1000, 20)
	return (&race{b: b, aggregates: names, perLane: each, textbook: each, batches: []int{batch}, goals: w1Goals}).run(ctx)
}

// hotLane is W2: 10,000 events of one aggregate, 16 and 100 to a transaction. The
// textbook loop, which takes that much longer, runs a fifth of them.
func hotLane(ctx context.Context, b *bench) ([]Result, error) {
	events := b.events(10_000)
	return (&race{b: b, aggregates: 1, perLane: events, textbook: max(1, events/5), batches: []int{batch, 100}, goals: w2Goals}).run(ctx)
}

// race has each form of handler run the same work as the textbook loop.
type race struct {
	b                   *bench
	aggregates, perLane int
	textbook            int // events of a lane for the loop
	batches             []int
	goals               map[string]float64

	s     *stage
	book  *textbook
	lanes group
	runs  []*raceRun
}

// raceRun is one line of the race.
type raceRun struct {
	line
	form string
}

func (r *race) run(ctx context.Context) ([]Result, error) {
	var err error
	if r.s, err = r.b.newStage(ctx, r.aggregates, workers+reserve); err != nil {
		return nil, err
	}
	defer r.s.close()
	if r.book, err = r.s.newTextbook(ctx, r.aggregates); err != nil {
		return nil, err
	}
	r.lanes = group{to: r.aggregates}
	r.enter()
	if err := r.round(ctx, max(1, r.perLane/10), max(1, r.textbook/10), false, func(string) {}); err != nil {
		return nil, err
	}
	err = r.b.each(func(_ int, side func(string)) error { return r.round(ctx, r.perLane, r.textbook, true, side) })
	if err != nil {
		return nil, err
	}
	lines := make([]*line, len(r.runs))
	for i, run := range r.runs {
		lines[i] = &run.line
	}
	return results(lines...), nil
}

// enter lists who runs: each form with each batch.
func (r *race) enter() {
	for i, batch := range r.batches {
		for _, form := range forms {
			name := r.b.doing + " " + form
			if i > 0 {
				name += fmt.Sprintf(" batch %d", batch)
			}
			r.runs = append(r.runs, &raceRun{form: form, line: line{
				scenario: name, events: r.aggregates * r.perLane, aggregates: r.aggregates,
				workers: workers, batch: batch, reference: "textbook loop", goal: goal{value: r.goals[form]},
			}})
		}
	}
}

// round runs the loop and then each form; timed is false in the one before the first.
func (r *race) round(ctx context.Context, perLane, textbook int, timed bool, note func(string)) error {
	note("textbook loop")
	err := r.s.prepare(ctx, func(ctx context.Context) error { return r.book.feed(ctx, textbook) })
	if err != nil {
		return err
	}
	reference, faults, err := r.book.run(ctx, workers)
	if err != nil {
		return err
	}
	if faults > 0 {
		r.b.remark("the textbook loop itself had %d violations", faults)
	}
	for _, run := range r.runs {
		note(run.scenario)
		err := r.s.prepare(ctx, func(ctx context.Context) error { return r.s.feed(ctx, &r.lanes, run.form, perLane) })
		if err != nil {
			return err
		}
		own, violations, err := r.s.run(ctx, stint{
			name: fmt.Sprintf("%s-%d", run.form, run.batch), batch: run.batch, events: int64(r.aggregates * perLane),
		})
		if err != nil {
			return fmt.Errorf("%s: %w", run.scenario, err)
		}
		run.violations += violations
		if timed {
			run.compare(own, reference)
		}
	}
	return nil
}
