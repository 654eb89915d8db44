package ordering

import (
	"context"
	"time"
)

// ahead is what is read of a lane on a second connection while a chain runs what
// was read before. Without it the server would wait for the process, and the
// process for the server, in turns.
type ahead struct {
	lane *lane // as it was read, with the events after those that run
	err  error
	done chan struct{}
}

// readOn begins to read on, if the chain runs all that is known of the lane, there
// is more of it, and a connection is free. A read that comes to nothing costs
// nothing: the lane is loaded as it always is.
func (t *turn) readOn(ctx context.Context) *ahead {
	l, last := t.lanes[0], &t.plans[len(t.plans)-1]
	if len(t.commits) < 2 || !l.more || last.from+last.n < len(l.events) || t.p.pool.Stat().IdleConns() == 0 {
		return nil
	}
	a := &ahead{lane: &lane{id: l.id}, done: make(chan struct{})}
	after := l.events[len(l.events)-1].Position
	t.p.reading.Go(func() {
		defer close(a.done)
		a.err = t.p.readAfter(ctx, a.lane, after)
	})
	return a
}

// readAfter reads the lane's events after a position.
func (p *Processor) readAfter(ctx context.Context, l *lane, after int64) error {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	perLane := p.readAhead(1)
	err = p.read(ctx, conn.Conn(), []int64{l.id}, &after, func(r *row) error {
		r.cursor = after
		return r.into(l, perLane)
	})
	l.more = len(l.events) == perLane
	return err
}

// aheadPatience is how long a chain that is committed waits for what is read on.
const aheadPatience = 5 * time.Millisecond

// follow gives the lane the events that were read on, once the chain is committed.
// What was changed from outside meanwhile shows in the version, which claim
// compares in any case.
func (a *ahead) follow(l *lane) {
	if a == nil {
		return
	}
	patience := time.NewTimer(aheadPatience)
	defer patience.Stop()
	select {
	case <-a.done:
	case <-patience.C: // perhaps for want of a connection; cancelled, it would lose it
		return
	}
	if a.err == nil && a.lane.failed == nil && len(a.lane.events) > 0 &&
		len(l.events) == 0 && l.cursor == a.lane.cursor && l.version == a.lane.version {
		l.events, l.more = a.lane.events, a.lane.more
	}
}
