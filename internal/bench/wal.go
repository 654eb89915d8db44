package bench

import (
	"context"
	"fmt"
	"strconv"
)

// writeAhead is W7: the WAL that an event takes beyond its handler's own, for
// 16,000 events of 1,000 aggregates, 1 and 16 to a transaction. The handler's own
// is what the same UPDATEs write in transactions of 1,000, so that commits count
// as inboxd's. Marking the lanes as done counts as well. A round before the first
// has touched the pages since the checkpoint, so that there are few full-page
// images in what is counted; how many there were is said. Everything else that
// the server writes meanwhile counts, autovacuum included.
func writeAhead(ctx context.Context, b *bench) ([]Result, error) {
	aggregates, perLane := spread(b.events(16_000), 1000, batch)
	s, err := b.newStage(ctx, aggregates, workers+reserve)
	if err != nil {
		return nil, err
	}
	defer s.close()
	w := &wal{s: s, lanes: group{to: aggregates}, perLane: perLane}
	single := w.line("W7 batch 1", 1, 350)
	many := w.line("W7 batch "+strconv.Itoa(batch), batch, 60)
	if err := s.checkpoint(ctx); err != nil {
		return nil, err
	}
	images, err := w.images(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range []*line{single, many} {
		if err := w.warm(ctx, l); err != nil {
			return nil, err
		}
	}
	err = b.each(func(_ int, note func(string)) error {
		note("the handler's own")
		handlers, err := w.handlers(ctx)
		if err != nil {
			return err
		}
		for _, l := range []*line{single, many} {
			note(l.scenario)
			if err := w.round(ctx, l, handlers); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if now, err := w.images(ctx); err == nil && images >= 0 {
		b.remark("%d full-page images were written since its checkpoint, storing the events included", now-images)
	}
	return results(single, many), nil
}

// wal measures WAL.
type wal struct {
	s       *stage
	lanes   group
	perLane int
}

func (w *wal) line(name string, batch int, limit float64) *line {
	return &line{
		scenario: name, events: w.lanes.size() * w.perLane, aggregates: w.lanes.size(), workers: workers, batch: batch,
		reference: "the UPDATEs alone", goal: goal{value: limit, below: true, unit: "B"},
	}
}

func (w *wal) warm(ctx context.Context, l *line) error {
	if _, err := w.handlers(ctx); err != nil {
		return err
	}
	_, _, _, err := w.run(ctx, l)
	return err
}

// handlers is the WAL of the UPDATEs alone, per event.
func (w *wal) handlers(ctx context.Context) (float64, error) {
	sql := w.s.other.sql(`update {accounts} set amount = amount - 1, misses = misses + (last + 1 <> last + 1)::integer, last = last + 1`)
	before, err := w.position(ctx)
	if err != nil {
		return 0, err
	}
	for range w.perLane {
		if err := w.s.exec(ctx, sql); err != nil {
			return 0, err
		}
	}
	after, err := w.position(ctx)
	return (after - before) / float64(w.lanes.size()*w.perLane), err
}

func (w *wal) round(ctx context.Context, l *line, handlers float64) error {
	own, bytes, violations, err := w.run(ctx, l)
	if err != nil {
		return err
	}
	l.violations += violations
	l.rates = append(l.rates, own.rate())
	l.ratios = append(l.ratios, bytes-handlers)
	return nil
}

// run runs events until their lanes are marked as done, and answers the WAL of
// that per event.
func (w *wal) run(ctx context.Context, l *line) (own side, bytes float64, violations int64, err error) {
	if err := w.s.feed(ctx, &w.lanes, formSQL, w.perLane); err != nil {
		return own, 0, 0, err
	}
	if err := w.s.settle(ctx); err != nil {
		return own, 0, 0, err
	}
	before, err := w.position(ctx)
	if err != nil {
		return own, 0, 0, err
	}
	own, violations, err = w.s.run(ctx, stint{name: l.scenario, batch: l.batch, events: int64(l.events), then: left})
	if err != nil {
		return own, 0, 0, err
	}
	after, err := w.position(ctx)
	return own, (after - before) / float64(l.events), violations, err
}

// position is how much WAL was written since the server was made.
func (w *wal) position(ctx context.Context) (float64, error) {
	n, err := one[float64](ctx, w.s.pool, `select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8`)
	if err != nil {
		return 0, fmt.Errorf("read the position in the WAL: %w", err)
	}
	return n, nil
}

// images is how many full-page images the server has written; -1: it does not say.
// Its counters may be a second old.
func (w *wal) images(ctx context.Context) (int64, error) {
	known, err := one[bool](ctx, w.s.pool, `select to_regclass('pg_catalog.pg_stat_wal') is not null`)
	if err != nil || !known {
		return -1, err
	}
	return one[int64](ctx, w.s.pool, `select wal_fpi from pg_stat_wal`)
}
