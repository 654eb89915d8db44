package ordering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/fault"
)

// Reasons for a stuck lane that no handler gave.
var (
	// ErrNoHandler is why a lane is stuck whose head has a type that this
	// process has no handler for.
	ErrNoHandler = errors.New("no handler is registered for event type")
	// ErrGap is why a lane is stuck whose next event is not in the inbox.
	ErrGap = errors.New("the inbox was changed from outside: events of this lane are gone")
	// ErrCrashes is why a lane is stuck whose head used up its attempts in
	// processes that died.
	ErrCrashes = errors.New("every attempt ended with its process or its connection")
)

type lostError struct {
	times int
	err   error
}

func (e *lostError) Error() string {
	return fmt.Sprintf("%s: %d connections in a row, while other lanes went on; the last: %s", ErrCrashes, e.times, e.err)
}

func (e *lostError) Unwrap() []error { return []error{ErrCrashes, e.err} }

// verdict is what a failure does to the lane.
type verdict struct {
	skip    bool
	pause   bool // until the breaker of the event's type closes
	later   bool // nothing failed: the handler wants to run later
	counted bool
	stuck   bool
	after   time.Duration // to the next attempt, unless stuck
}

// judge decides on a failure of the head, which has used so many attempts before.
func (p *Processor) judge(f *failure, used int) verdict {
	policy, err := p.policies.of(f.eventType), f.err
	var retry *handlers.RetryAfterError
	var later *handlers.LaterError
	var wait *waitError
	switch {
	case errors.Is(err, handlers.ErrSkip):
		return verdict{skip: true}
	case errors.As(err, &wait):
		return verdict{after: wait.after}
	case errors.As(err, &later):
		return verdict{after: later.After, later: true}
	case errors.Is(err, ErrNoHandler), errors.Is(err, ErrGap):
		return verdict{stuck: true}
	case errors.Is(err, handlers.ErrPause): // of a type that is not known any more
		return verdict{after: policy.wait(5)}
	case errors.Is(err, handlers.ErrPermanent), policy.permanent(err):
		return verdict{counted: true, stuck: true}
	case policy.transient(err):
		return verdict{after: policy.wait(5)}
	case used+1 >= policy.Attempts:
		return verdict{counted: true, stuck: true}
	case errors.As(err, &retry):
		return verdict{counted: true, after: retry.After}
	}
	return verdict{counted: true, after: policy.wait(used + 1)}
}

// record writes down how the head failed: its lane backs off, is stuck, or
// passes over it. The error is an outage; the failure is then kept and written
// down later.
func (p *Processor) record(ctx context.Context, conn *pgx.Conn, l *lane) error {
	f := l.failed
	v := p.judge(f, l.attempts)
	if p.pauses(l, f) {
		v = verdict{pause: true}
	}
	t := p.newTurn(nil, conn, []*lane{l})
	t.begin(0)
	p.gatherFailure(t, l, f, v)
	t.gather(nobody, commit)
	t.reset()
	if err := t.flush(ctx); err != nil {
		if !conn.IsClosed() {
			t.rollback()
		}
		switch fault.Of(err) {
		case fault.Outage:
			l.forget()
			l.failed = f
			return err
		case fault.Conflict:
			return nil
		}
		l.forget()
		if fault.State(err) == changeFirst {
			return p.changeFirst(ctx, conn, []*lane{l}) // what is left of the failure is recorded after that
		}
		if fault.Of(err) == fault.Moved {
			// Perhaps its own lost session still holds it; if somebody else
			// has run the event meanwhile, the failure is dropped.
			l.forgetRest()
			return nil
		}
		l.failed = nil
		return fmt.Errorf("record the failure of lane %d: %w", l.id, err)
	}
	l.failed = nil
	p.report(l, f, v)
	p.hooks.fell(l, f, v)
	p.recorded(ctx, conn, l, f, v)
	return nil
}

// gatherFailure gathers the statement that writes the verdict down.
func (p *Processor) gatherFailure(t *turn, l *lane, f *failure, v verdict) {
	o, c := owner{l, -1}, describe(f.err)
	switch {
	case v.skip:
		t.gather(o, p.sql.skip, p.id.Load(), l.id, l.cursor, "handler", f.err.Error())
	case v.pause:
		t.gather(o, p.sql.trip, l.id, l.cursor, f.eventType, c.message, c.fingerprint, p.cfg.Breaker.Probe)
	default:
		var after *time.Duration
		if !v.stuck {
			after = &v.after
		}
		t.gather(o, p.sql.fail, p.id.Load(), l.id, l.cursor, v.counted, after, c.message, c.fingerprint, c.detail(p.cfg.Version))
	}
}

// recorded sees to what follows from a failure that is on record.
func (p *Processor) recorded(ctx context.Context, conn *pgx.Conn, l *lane, f *failure, v verdict) {
	switch {
	case v.pause:
		l.probe = false
		p.breaker.note(f.eventType, true)
	case l.probe && v.counted:
		p.probed(ctx, conn, l, f.eventType) // the handler was reached
	}
	l.forget()
	if v.skip {
		return // its followers run
	}
	l.forgetRest()
	if !v.stuck && !v.pause {
		p.sweeper.dueIn(v.after)
	}
}

// report tells log and counters of a failure that was recorded.
func (p *Processor) report(l *lane, f *failure, v verdict) {
	fingerprint := describe(f.err).fingerprint
	attrs := []any{"position", f.position, "error", f.err.Error(), "fingerprint", fingerprint}
	if len(l.events) > 0 && l.head().Position == f.position {
		h := l.head()
		attrs = append(attrs, "aggregate_id", h.AggregateID, "event_id", h.ID, "event_type", h.Type)
	}
	if v.counted {
		attrs = append(attrs, "attempt", l.attempts+1)
		p.count.failed.Add(1)
	}
	switch {
	case v.pause:
		p.reportPause(f)
	case v.later:
		p.log.Debug("event put off by its handler", append(attrs, "next_attempt_in", v.after.Round(time.Millisecond).String())...)
	case v.skip:
		p.count.skipped.Add(1)
		p.quiet.line(slog.LevelWarn, "event skipped by its handler", fingerprint, attrs...)
	case v.stuck:
		p.count.stuck.Add(1)
		p.quiet.line(slog.LevelError, "lane stuck", fingerprint, attrs...)
	default:
		p.quiet.line(slog.LevelWarn, "event failed", fingerprint, append(attrs, "next_attempt_in", v.after.Round(time.Millisecond).String())...)
	}
}

// cause is an error as it is stored and grouped.
type cause struct {
	message     string
	fingerprint string
	state       string
	types       []string
	stack       string
}

// maxMessage bounds what is stored of an error's text, and of a stack.
const maxMessage = 4 << 10

func describe(err error) cause {
	c := cause{message: storable(err.Error(), maxMessage), state: fault.State(err), types: typeChain(err)}
	c.fingerprint = fingerprint(c.state, c.message)
	var panicked *handlers.PanicError
	if errors.As(err, &panicked) {
		c.stack = storable(string(panicked.Stack), maxMessage)
	}
	return c
}

func (c cause) detail(version string) string {
	b, err := json.Marshal(struct {
		State   string   `json:"sqlstate,omitempty"`
		Types   []string `json:"types,omitempty"`
		Stack   string   `json:"stack,omitempty"`
		Version string   `json:"version,omitempty"`
	}{c.state, c.types, c.stack, version})
	if err != nil { // strings always encode
		return "{}"
	}
	return string(b)
}

// typeChain names the Go types of an error and of what it wraps, outermost
// first.
func typeChain(err error) []string {
	var types []string
	for err != nil && len(types) < 8 {
		types = append(types, fmt.Sprintf("%T", err))
		switch u := err.(type) { //nolint:errorlint // it is the chain itself that is walked
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			inner := u.Unwrap()
			if len(inner) == 0 {
				return types
			}
			err = inner[len(inner)-1]
		default:
			return types
		}
	}
	return types
}
