package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// W4 asks what becomes of the rate of 20,000 pending events in 1,000 lanes when
// there is more in the tables than that: 2,000,000 pending in 100,000 lanes;
// 10,000 stuck lanes that are older than those that can run; a snapshot that
// somebody else holds open from before the events are stored until they have
// run. All four have equally many accounts, and lanes equally long. Of the 20,000
// the first fifth warms up, three fifths are timed, and the last one is left, so
// that neither the start nor the end, when lanes run out, is in any of the rates;
// the others time as many.
const growthFactor = 100

// growthRepeats makes more rounds of W4, since each takes a moment only and its
// goal is narrow.
const growthRepeats = 3

// situation is one of the four.
type situation struct {
	*line    // nil: it is the reference
	s        *stage
	lanes    group
	pending  int64 // events before each round
	fifth    int64 // of the reference's events
	snapshot bool
}

func growth(ctx context.Context, b *bench) ([]Result, error) {
	lanes, perLane := spread(max(20, b.events(2_000_000)/growthFactor), 1000, 20)
	many := growthFactor * lanes
	g := &grower{b: b, accounts: many, lanes: lanes, perLane: perLane}
	defer g.close()
	for _, want := range []struct {
		name         string
		stuck, lanes int
	}{
		{"", 0, lanes}, // the reference
		{"pending", 0, many},
		{"stuck lanes", min(10*lanes, many-lanes), lanes},
		{"old snapshot", 0, lanes},
	} {
		if err := g.add(ctx, want.name, want.stuck, want.lanes); err != nil {
			return nil, err
		}
	}
	g.situations[3].snapshot = true
	if err := b.times(growthRepeats*b.Rounds, func(_ int, note func(string)) error { return g.round(ctx, note) }); err != nil {
		return nil, err
	}
	var out []Result
	for _, st := range g.situations[1:] {
		out = append(out, st.result())
	}
	return out, nil
}

// grower makes the situations and times them.
type grower struct {
	b              *bench
	accounts       int
	lanes, perLane int // of the reference
	situations     []*situation
}

func (g *grower) close() {
	for _, st := range g.situations {
		st.s.close()
	}
}

// add makes a situation with so many stuck lanes and, after them, lanes with
// events, a few of which have run.
func (g *grower) add(ctx context.Context, name string, stuck, lanes int) error {
	s, err := g.b.newStage(ctx, g.accounts, workers+reserve)
	if err != nil {
		return err
	}
	st := &situation{s: s, lanes: group{from: stuck, to: stuck + lanes}, pending: int64(lanes * g.perLane)}
	st.fifth = max(1, int64(g.lanes*g.perLane)/5)
	g.situations = append(g.situations, st)
	if name != "" {
		st.line = &line{scenario: "W4 " + name, events: lanes * g.perLane, aggregates: lanes + stuck,
			workers: workers, batch: batch, goal: goal{value: 0.9},
			reference: fmt.Sprintf("%d pending", g.lanes*g.perLane)}
	}
	if stuck > 0 {
		g.b.progress("making %d lanes stuck", stuck)
		if err := s.getStuck(ctx, stuck); err != nil {
			return err
		}
	}
	g.b.progress("storing %d events in %d lanes", lanes*g.perLane, lanes)
	if err := s.feed(ctx, &st.lanes, formSQL, g.perLane); err != nil {
		return err
	}
	_, _, err = s.run(ctx, stint{name: "warm-up", batch: batch, events: st.fifth})
	return err
}

// getStuck makes the first lanes stuck: nobody handles the type of their events.
func (s *stage) getStuck(ctx context.Context, lanes int) error {
	if err := s.feed(ctx, &group{to: lanes}, "unknown", 2); err != nil {
		return err
	}
	reg, err := s.own.registry()
	if err != nil {
		return err
	}
	e, err := startEngine(s.pool, reg, s.config(batch))
	if err != nil {
		return err
	}
	waited := await(ctx, poll, func() (int64, bool, error) {
		stuck := e.p.Stats().Stuck
		return stuck, stuck >= int64(lanes), nil
	})
	_, err = e.stop()
	return errors.Join(waited, err)
}

// round times each of the situations, the reference first.
func (g *grower) round(ctx context.Context, note func(string)) error {
	var reference side
	for _, st := range g.situations {
		if st.line == nil {
			note("the reference")
		} else {
			note(st.scenario)
		}
		own, violations, err := st.time(ctx)
		switch {
		case err != nil:
			return err
		case st.line != nil:
			st.violations += violations
			st.compare(own, reference)
		default:
			reference = own
			for _, other := range g.situations[1:] {
				other.violations += violations // whoever is compared with it
			}
		}
	}
	return nil
}

// time is one round of one situation. What ran in the last one is stored anew.
func (st *situation) time(ctx context.Context) (side, int64, error) {
	if st.snapshot {
		end, err := st.s.holdSnapshot(ctx)
		if err != nil {
			return side{}, 0, err
		}
		defer end()
	}
	err := st.s.prepare(ctx, func(ctx context.Context) error {
		lanes := int64(st.lanes.size())
		missing := st.pending - (st.lanes.fed*lanes - st.s.own.done)
		if missing < lanes {
			return nil
		}
		return st.s.feed(ctx, &st.lanes, formSQL, int(missing/lanes))
	})
	if err != nil {
		return side{}, 0, err
	}
	return st.s.run(ctx, stint{name: "growth", batch: batch, skip: st.fifth, events: 3 * st.fifth})
}

// holdSnapshot opens a transaction that sees everything as it is now, until end.
func (s *stage) holdSnapshot(ctx context.Context) (end func(), err error) {
	conn, err := pgx.Connect(ctx, s.b.URL)
	if err != nil {
		return nil, err
	}
	end = func() { _ = conn.Close(context.WithoutCancel(ctx)) }
	_, err = conn.Exec(ctx, s.in("begin isolation level repeatable read; select count(*) from {schema}.accounts"))
	if err != nil {
		end()
		return nil, err
	}
	return end, nil
}
