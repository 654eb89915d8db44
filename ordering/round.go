package ordering

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/fault"
)

// round gives each of the lanes a turn. The error is an outage.
func (p *Processor) round(w *worker, lanes []*lane) error {
	ctx := p.hard
	acquired, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	w.holds(acquired)
	defer w.release()
	conn := acquired.Conn()
	err = rememberSettings(ctx, conn)
	if err == nil {
		err = p.refresh(ctx, conn, lanes)
	}
	if err != nil {
		for _, l := range lanes {
			l.forget()
		}
		return err
	}
	var together, held []*lane
	for _, l := range lanes {
		switch {
		case l.failed != nil && l.recorded():
			l.failed = nil
			fallthrough
		case l.failed == nil || l.failed.position > l.cursor+1:
			if !l.runnable || len(l.events) == 0 {
				l.forgetRest()
				continue
			}
			switch {
			case p.waits(l):
				held = append(held, l)
			case p.apart(l) && len(lanes) > 1:
				l.alone = max(l.alone, 1) // in a round of its own: its handler may wait for another system
			case l.traced || l.crashes > 0 || l.cursor < l.carefulTo:
				err = p.careful(ctx, w, conn, l)
			case p.isolation(l) != "":
				err = p.runTogether(ctx, w, conn, []*lane{l})
			default:
				together = append(together, l)
			}
		default:
			err = p.record(ctx, conn, l)
		}
		if err != nil || conn.IsClosed() {
			return err // the others keep their place in the queue
		}
	}
	if err := p.hold(ctx, conn, held); err != nil || conn.IsClosed() {
		return err
	}
	return p.runTogether(ctx, w, conn, together)
}

// forgetRest has the lane go to the settler, which looks what holds it.
func (l *lane) forgetRest() {
	l.events, l.more, l.loaded = nil, false, true
}

// refresh reads the lanes of which too little is known.
func (p *Processor) refresh(ctx context.Context, conn *pgx.Conn, lanes []*lane) error {
	var stale []*lane
	for _, l := range lanes {
		if !l.loaded || l.more && len(l.events) < p.cfg.Batch {
			stale = append(stale, l)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	return p.load(ctx, conn, stale)
}

// laneMoved is what claim says when it has locked nothing.
const laneMoved = "IBX01"

// runTogether runs the lanes in one turn, and sees to what went wrong.
func (p *Processor) runTogether(ctx context.Context, w *worker, conn *pgx.Conn, lanes []*lane) error {
	if len(lanes) == 0 {
		return nil
	}
	started := time.Now()
	t := p.newTurn(w, conn, lanes)
	t.isolation = p.isolation(lanes[0])
	err := t.run(ctx)
	if fault.State(err) != laneMoved {
		for _, l := range lanes {
			l.ran = true
		}
	}
	if err != nil {
		if errors.Is(err, errGone) {
			return nil
		}
		p.keep(t, conn, err, time.Since(started))
		return p.failed(ctx, conn, lanes, err)
	}
	probes, took := p.succeeded(t), time.Since(started)
	p.hooks.ran(t, took)
	p.committed(t, took)
	t.ahead.follow(lanes[0])
	for _, found := range probes {
		p.probed(ctx, conn, found.lane, found.eventType)
	}
	return nil
}

// keep takes note of what a chain had committed before it failed. A server that is
// gone may have lost it: the lane is read again then.
func (p *Processor) keep(t *turn, conn *pgx.Conn, err error, took time.Duration) {
	if t.committed == 0 || conn.IsClosed() {
		return
	}
	t.plans = t.plans[:t.committed]
	t.commits = t.commits[:slices.Index(t.commits, t.committed)+1]
	p.succeeded(t)
	p.hooks.ran(t, took)
	p.committed(t, took)
	var cause *turnError
	if errors.As(err, &cause) && cause.owner.index >= 0 {
		for _, plan := range t.plans {
			cause.owner.index -= plan.n
		}
	}
}

// committed takes note of a turn's success.
func (p *Processor) committed(t *turn, took time.Duration) {
	p.outage.over()
	slow := p.pace.slow(took / time.Duration(max(1, len(t.commits))))
	for _, plan := range t.plans {
		p.count.processed.Add(int64(plan.n))
		if plan.lane.swept {
			p.count.swept.Add(int64(plan.n))
		}
		if quick := !slow && took < quickTurn; quick || len(t.lanes) == 1 {
			for i := range plan.n {
				p.pace.ran(plan.lane.events[i].Type, quick)
			}
		}
		plan.lane.done(plan.n)
		plan.lane.clashes = 0
		switch {
		case slow && len(t.lanes) > 1:
			plan.lane.alone = max(plan.lane.alone, 1) // one of them was slow; see which
		case slow:
			plan.lane.alone = aloneTurns
		case plan.lane.alone > 0:
			plan.lane.alone--
		}
		if p.apart(plan.lane) {
			plan.lane.alone = max(plan.lane.alone, 1)
		}
	}
	p.count.turns.Add(int64(len(t.commits)))
}

// failed sees to a turn that failed. Nothing of it was committed, and no lane
// but the one that is to blame loses an attempt.
func (p *Processor) failed(ctx context.Context, conn *pgx.Conn, lanes []*lane, err error) error {
	var cause *turnError
	if !errors.As(err, &cause) {
		cause = &turnError{owner: owner{index: -1}, err: err}
	}
	if p.hard.Err() != nil {
		p.cut(lanes, err)
		return nil
	}
	switch p.classify(conn, cause) {
	case fault.Outage:
		p.lostConnection(lanes, err)
		return outageOnly(conn, err)
	case fault.Moved:
		if fault.State(err) == changeFirst {
			return p.changeFirst(ctx, conn, lanes)
		}
		p.moved(lanes, err)
		return nil
	case fault.Conflict:
		p.clashed(lanes, cause)
		return nil
	}
	if len(lanes) > 1 && (cause.hidden || groupLimitHit(cause.err)) {
		p.isolate(lanes, cause.owner.lane)
		return nil
	}
	l := cause.owner.lane
	switch {
	case l != nil && cause.owner.index >= 0:
		l.fail(l.events[cause.owner.index].Position, cause.err)
		l.alone = max(l.alone, 1)
	case l != nil && l.singles == 0:
		l.singles = p.cfg.Batch // several events were in the call that failed
	case len(lanes) > 1:
		p.isolate(lanes, nil)
	case lanes[0].singles == 0:
		lanes[0].singles = p.cfg.Batch // failed at the commit; one by one shows which
	default:
		lanes[0].fail(lanes[0].cursor+1, cause.err)
	}
	return nil
}

// groupLimitHit reports that a statement met the short limits of a shared turn:
// its event runs again without them before it loses an attempt.
func groupLimitHit(err error) bool {
	return fault.State(err) == "57014" // query_canceled
}

// classify says whose fault an error is. An error that a handler returned is
// the event's own unless our own connection or transaction had it: handlers
// also talk to other servers.
func (p *Processor) classify(conn *pgx.Conn, cause *turnError) fault.Class {
	var timeout *handlers.TimeoutError
	if errors.As(cause.err, &timeout) {
		return fault.Event
	}
	class := fault.Of(cause.err)
	if conn.IsClosed() {
		return fault.Outage
	}
	if fault.State(cause.err) == "" && cause.owner.index >= 0 {
		return fault.Event
	}
	return class
}

// isolate has the culprit, or each of the lanes, take its next turns alone.
func (p *Processor) isolate(lanes []*lane, culprit *lane) {
	for _, l := range lanes {
		switch culprit {
		case nil:
			l.alone = max(l.alone, 1)
		case l:
			l.alone = aloneTurns
		}
	}
}

// moved sees to lanes of which some were not as they had been read: another
// process runs them, or an operator changed them. The settler looks at those in
// a while; the others run again at once.
func (p *Processor) moved(lanes []*lane, err error) {
	elsewhere := movedLanes(err)
	for _, l := range lanes {
		_, named := elsewhere[l.id]
		if named || len(lanes) == 1 {
			l.forgetRest()
		}
	}
	if len(elsewhere) == 0 && len(lanes) > 1 {
		p.isolate(lanes, nil)
	}
}

// movedLanes reads from the error of claim which lanes it could not lock.
func movedLanes(err error) map[int64]struct{} {
	named := map[int64]struct{}{}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Detail != "" {
		ids, _ := parseLanes(pgErr.Detail)
		for _, id := range ids {
			named[id] = struct{}{}
		}
	}
	return named
}

// clashed sees to a conflict with another transaction: the turn runs again, and
// costs nobody an attempt.
func (p *Processor) clashed(lanes []*lane, cause *turnError) {
	p.count.conflicts.Add(1)
	if len(lanes) > 1 {
		p.isolate(lanes, cause.owner.lane)
		return
	}
	l := lanes[0]
	l.clashes++
	if l.clashes < 5 {
		time.Sleep(time.Duration(rand.Int64N(int64(l.clashes) * int64(5*time.Millisecond))))
		return
	}
	l.fail(l.cursor+1, &waitError{after: time.Duration(min(l.clashes, 50)) * 20 * time.Millisecond, err: cause.err})
}

// waitError has an event wait without an attempt being counted.
type waitError struct {
	after time.Duration
	err   error
}

func (e *waitError) Error() string { return e.err.Error() }
func (e *waitError) Unwrap() error { return e.err }

// maxLost is how often in a row an event may lose its connection while the
// process does other things with the database, before it is taken to be the
// reason.
const maxLost = 20

// lostConnection sees to a turn whose connection was lost. That is an outage
// and costs no attempt, unless it only ever happens to one event.
func (p *Processor) lostConnection(lanes []*lane, err error) {
	alive := p.count.turns.Load() + p.count.beats.Load()
	for _, l := range lanes {
		switch {
		case len(lanes) == 1 && l.singles == 0:
			l.singles = p.cfg.Batch // one by one shows which of them it was
		case len(lanes) == 1 && alive > l.lostAt:
			l.lost++
		}
		l.lostAt = alive
		l.alone = max(l.alone, 1)
		if l.crashes > 0 {
			l.stale = true
		}
		if l.lost >= maxLost {
			l.fail(l.cursor+1, handlers.Permanent(&lostError{times: l.lost, err: err}))
		}
		l.forget()
	}
}

// cut notes what a stop cut short.
func (p *Processor) cut(lanes []*lane, err error) {
	for _, l := range lanes {
		if len(l.events) > 0 {
			p.noteCut(l.head(), err)
		}
		l.forget()
	}
}

// outageOnly answers err if it is an outage: the worker waits then.
func outageOnly(conn *pgx.Conn, err error) error {
	if conn.IsClosed() || fault.Of(err) == fault.Outage {
		return err
	}
	return nil
}
