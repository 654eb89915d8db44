package ordering

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/fault"
)

// Breaker says when an event type is paused because something that its handler
// depends on is down. A handler that returns handlers.Pause does so at once;
// otherwise it is inferred from failures that look like a dependency's: the
// network's, and time-outs. An error with a method DependencyDown() bool says
// itself whether it is one.
//
// Lanes whose head is of a paused type wait, in state paused, without using up
// attempts, in every process. One of them at a time runs, as a probe; when it
// gets through, all go on.
type Breaker struct {
	// Lanes is how many lanes must fail like this, with no success of the type
	// between them, for the type to be paused. Default 5. Negative: only
	// handlers.Pause pauses a type.
	Lanes int
	// Probe is the wait before the first probe; it doubles with each that
	// fails. Default 1 s.
	Probe time.Duration
	// Max is the longest wait between two probes. Default 30 s.
	Max time.Duration
}

// breaker is what this process knows of open breakers and of failures that may
// open one. The table breakers has the truth; memory follows with the heartbeat.
type breaker struct {
	limit int
	open  atomic.Pointer[map[string]struct{}] // nil: none

	counting atomic.Bool // failing is not empty
	mu       sync.Mutex
	failing  map[string]map[int64]struct{} // by type, lanes whose last failure was a dependency's
}

func newBreaker(limit int) *breaker {
	return &breaker{limit: limit, failing: map[string]map[int64]struct{}{}}
}

// isOpen reports whether heads of the type wait.
func (b *breaker) isOpen(eventType string) bool {
	open := b.open.Load()
	if open == nil {
		return false
	}
	_, ok := (*open)[eventType]
	return ok
}

// set takes over what the database says.
func (b *breaker) set(types []string) {
	if len(types) == 0 {
		b.open.Store(nil)
		return
	}
	open := make(map[string]struct{}, len(types))
	for _, t := range types {
		open[t] = struct{}{}
	}
	b.open.Store(&open)
}

// note opens the breaker of a type, or closes it, ahead of the heartbeat.
func (b *breaker) note(eventType string, isOpen bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failing, eventType)
	b.counting.Store(len(b.failing) > 0)
	var types []string
	if open := b.open.Load(); open != nil {
		for t := range *open {
			if t != eventType {
				types = append(types, t)
			}
		}
	}
	if isOpen {
		types = append(types, eventType)
	}
	b.set(types)
}

// failed takes note of a dependency's failure and reports whether so many lanes
// have met it that the type is to be paused.
func (b *breaker) failed(eventType string, lane int64) bool {
	if b.limit < 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	lanes := b.failing[eventType]
	if lanes == nil {
		lanes = map[int64]struct{}{}
		b.failing[eventType] = lanes
	}
	lanes[lane] = struct{}{}
	b.counting.Store(true)
	return len(lanes) >= b.limit
}

// succeeded takes note that a handler of the type got through.
func (b *breaker) succeeded(eventType string) {
	if !b.counting.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failing, eventType)
	b.counting.Store(len(b.failing) > 0)
}

// dependencyDown reports that an error looks like that of something the handler
// talks to: it could not be reached, or did not answer in time. What PostgreSQL
// says about the lane's own statements is none.
func dependencyDown(err error) bool {
	var timeout *handlers.TimeoutError
	var netErr net.Error
	var says interface{ DependencyDown() bool }
	switch {
	case fault.State(err) != "":
		return false
	case errors.As(err, &says):
		return says.DependencyDown()
	case errors.As(err, &timeout), errors.Is(err, context.DeadlineExceeded):
		return true
	}
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// waits reports whether the lane's head waits for a breaker.
func (p *Processor) waits(l *lane) bool {
	return !l.probe && len(l.events) > 0 && p.breaker.isOpen(l.head().Type)
}

// reportPause logs that a type is paused, once for all of its lanes.
func (p *Processor) reportPause(f *failure) {
	if !p.breaker.isOpen(f.eventType) {
		p.log.Warn("event type paused: something that its handler depends on is down; one event at a time finds out when it is back",
			"event_type", f.eventType, "error", f.err.Error())
	}
}

// hold pauses lanes whose heads are of a type with an open breaker. Those that
// are its probe, or find it closed, run with their next turn.
func (p *Processor) hold(ctx context.Context, conn *pgx.Conn, lanes []*lane) error {
	byType := map[string][]*lane{}
	for _, l := range lanes {
		byType[l.head().Type] = append(byType[l.head().Type], l)
	}
	for eventType, group := range byType {
		ids, cursors, versions := make([]int64, len(group)), make([]int64, len(group)), make([]int32, len(group))
		for i, l := range group {
			ids[i], cursors[i], versions[i] = l.id, l.cursor, l.version
		}
		var run []int64
		if err := conn.QueryRow(ctx, p.sql.hold, ids, cursors, versions, eventType).Scan(&run); err != nil {
			for _, l := range lanes {
				l.forget()
			}
			return outageOnly(conn, err)
		}
		free := make(map[int64]struct{}, len(run))
		for _, id := range run {
			free[id] = struct{}{}
		}
		for _, l := range group {
			if _, ok := free[l.id]; ok {
				l.probe, l.singles, l.alone = true, max(l.singles, 1), max(l.alone, 1)
			} else {
				l.forgetRest()
			}
		}
	}
	return nil
}

// probed sees to a probe that got through to its handler: the type goes on.
func (p *Processor) probed(ctx context.Context, conn *pgx.Conn, l *lane, eventType string) {
	l.probe = false
	if conn.IsClosed() {
		return // the next probe tells
	}
	var closed bool
	if err := conn.QueryRow(ctx, p.sql.closeBreaker, eventType, "inboxd", "a probe got through").Scan(&closed); err != nil {
		p.log.Debug("could not close a breaker; the next probe does", "event_type", eventType, "error", err.Error())
		return
	}
	p.breaker.note(eventType, false)
	if closed {
		p.log.Info("event type goes on: what its handler depends on is back", "event_type", eventType)
	}
	signal(p.beatNow)
}

// succeeded takes note of what a turn ran, before its events are taken off.
func (p *Processor) succeeded(t *turn) (probes []probe) {
	counting := p.breaker.counting.Load()
	for _, plan := range t.plans {
		if plan.lane.probe {
			probes = append(probes, probe{plan.lane, plan.lane.head().Type})
		}
		if counting {
			for i := range plan.n {
				p.breaker.succeeded(plan.lane.events[plan.from+i].Type)
			}
		}
	}
	return probes
}

// probe is a lane whose head ran to find out whether its type can go on.
type probe struct {
	lane      *lane
	eventType string
}

// freePage is how many lanes are given back at once when a breaker closes.
const freePage = 500

// tend does what no lane's turn does; see tend() in the migrations.
func (p *Processor) tend(ctx context.Context) error {
	for {
		var open []string
		var probes []int64
		var freed int
		err := p.pool.QueryRow(ctx, p.sql.tend, p.types, p.cfg.Breaker.Probe, p.cfg.Breaker.Max, freePage).
			Scan(&open, &probes, &freed)
		if err != nil {
			return err
		}
		p.breaker.set(open)
		p.sched.wake(probes, false)
		if freed < freePage {
			return nil
		}
	}
}

// pauses reports whether a failure pauses its type.
func (p *Processor) pauses(l *lane, f *failure) bool {
	if f.eventType == "" {
		return false
	}
	if handlers.OutcomeOf(f.err) == handlers.Paused {
		return true
	}
	switch handlers.OutcomeOf(f.err) {
	case handlers.Failed, handlers.Retried:
	default:
		return false // the handler has decided
	}
	if !dependencyDown(f.err) {
		return false
	}
	return l.probe || p.breaker.failed(f.eventType, l.id)
}
