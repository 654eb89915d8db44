package bench

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// slowness is how long the handler of W10's slow lane takes; sleep is as long.
const (
	slowness = 50 * time.Millisecond
	sleep    = "select pg_sleep(0.05)"
)

// The event types of the slow lane.
const (
	slowOn  = "slow On"
	slowSQL = "slow sql"
)

// slowHandler is W10: the rate of 99 lanes beside one lane whose handler takes
// 50 ms, against their rate beside one whose handler does not. The slow lane never
// runs out of events. Its handler waits in this process (On, 25,000 events) or in
// the server (sql, 100,000). Each run begins with a processor that does not know
// yet which lane is slow.
func slowHandler(ctx context.Context, b *bench) ([]Result, error) {
	const aggregates = 100
	var lines []*line
	for _, run := range []struct {
		form   string
		events int
	}{{formOn, 25_000}, {formSQL, 100_000}} {
		form, perLane := run.form, max(1, b.events(run.events)/aggregates)
		l := &line{scenario: "W10 " + form, events: (aggregates - 1) * perLane, aggregates: aggregates, workers: workers,
			batch: batch, reference: "without the slow handler", goal: goal{value: 0.9}}
		lines = append(lines, l)
		if err := b.besideSlow(ctx, l, form, aggregates, perLane); err != nil {
			return nil, err
		}
	}
	return results(lines...), nil
}

// besideSlow is one line of W10.
func (b *bench) besideSlow(ctx context.Context, l *line, form string, aggregates, perLane int) (err error) {
	calm := &neighbours{form: form, first: form, perLane: perLane, lanes: group{from: 1, to: aggregates}}
	slow := &neighbours{form: form, first: "slow " + form, perLane: perLane, lanes: group{from: 1, to: aggregates}}
	for _, n := range []*neighbours{calm, slow} {
		if n.s, err = b.newStage(ctx, aggregates, workers+reserve+1); err != nil {
			return err
		}
		defer n.s.close()
		if _, _, err := n.round(ctx, max(1, perLane/20)); err != nil {
			return err
		}
	}
	return b.each(func(_ int, note func(string)) error {
		note("without the slow handler")
		reference, violations, err := calm.round(ctx, perLane)
		if err != nil {
			return err
		}
		note(l.scenario)
		own, more, err := slow.round(ctx, perLane)
		if err != nil {
			return err
		}
		l.violations += violations + more
		l.compare(own, reference)
		return nil
	})
}

// neighbours are the lanes beside the first one.
type neighbours struct {
	s           *stage
	form, first string // event types: of the lanes, and of the first lane
	perLane     int
	lanes       group
	firstLane   group
}

// round stores events and times those that are not of the first lane.
func (n *neighbours) round(ctx context.Context, perLane int) (own side, violations int64, err error) {
	n.firstLane.to = 1
	err = n.s.prepare(ctx, func(ctx context.Context) error {
		return errors.Join(
			n.s.feed(ctx, &n.firstLane, n.first, perLane),
			n.s.feed(ctx, &n.lanes, n.form, perLane))
	})
	if err != nil {
		return own, 0, err
	}
	reg, err := n.registry()
	if err != nil {
		return own, 0, err
	}
	n.s.watch.arm()
	e, err := startEngine(n.s.pool, reg, n.s.config(batch))
	if err != nil {
		return own, 0, err
	}
	waited := n.done(ctx)
	own = side{int64(n.lanes.size() * perLane), time.Since(n.s.watch.first(e.began))}
	total, err := e.stop()
	if err := errors.Join(waited, err); err != nil {
		return own, 0, err
	}
	violations, err = n.s.own.audit(ctx, n.s.pool, total)
	return own, violations, err
}

// done waits until all lanes but the first have run their events. It looks at
// the accounts, a hundred rows.
func (n *neighbours) done(ctx context.Context) error {
	sql := n.s.own.sql(`select count(*) filter (where last < $1), coalesce(sum(last), 0)::bigint from {accounts} where account_id <> 'account-0'`)
	return await(ctx, 4*time.Millisecond, func() (int64, bool, error) {
		var behind, sum int64
		err := n.s.pool.QueryRow(ctx, sql, n.lanes.fed).Scan(&behind, &sum)
		return sum, behind == 0, err
	})
}

// registry has the slow handlers too.
func (n *neighbours) registry() (*handlers.Registry, error) {
	reg, err := n.s.own.registry()
	if err != nil {
		return nil, err
	}
	debit := n.s.own.debit("$1", "$2")
	handlers.On(reg, slowOn, func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		number, err := number(e.Data)
		if err != nil {
			return err
		}
		pause(ctx, slowness)
		_, err = tx.Exec(ctx, debit, e.AggregateID, number)
		return err
	})
	return reg, handlers.SQL(reg, slowSQL, sleep, n.s.own.debit("@aggregate_id", "@payload::bigint"))
}
