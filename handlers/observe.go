package handlers

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Observation is what Metrics tells of a call.
type Observation struct {
	// Type is the event type that the handler is registered for, and Form its form.
	Type string
	Form Form
	// Events is how many the call had.
	Events int
	// Took is how long the call took, with the middleware further in. For a queued
	// handler that is the queueing alone.
	Took time.Duration
	// Outcome is what Err means.
	Outcome Outcome
	// Err is the answer of the handler.
	Err error
}

// Metrics tells the function of every call that returned. It runs in the
// worker's goroutine and should be quick. A call that is Done is not yet
// committed: what shares its transaction may fail, and then it runs again. The
// processor's own counts are of what was committed.
func Metrics(observe func(ctx context.Context, o Observation)) Middleware {
	if observe == nil {
		panic("handlers: the function of Metrics is nil")
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, call *Call) error {
			began := time.Now()
			err := next(ctx, call)
			observe(ctx, Observation{Type: call.Type(), Form: call.Form(), Events: len(call.Events),
				Took: time.Since(began), Outcome: OutcomeOf(err), Err: err})
			return err
		}
	}
}

// Tracing has start begin a span for every call: it gives the context that the
// handler gets, and a function, never nil, that ends the span with the handler's
// answer. Message.TraceParent is what the span may follow; of several events, each
// has its own. To have a panic's value in the span, put Recover further in.
func Tracing(start func(ctx context.Context, call *Call) (context.Context, func(err error))) Middleware {
	if start == nil {
		panic("handlers: the function of Tracing is nil")
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, call *Call) error {
			ctx, end := start(ctx, call)
			err := errNoReturn
			defer func() { end(err) }()
			err = next(ctx, call)
			return err
		}
	}
}

// errNoReturn ends the span of a call that panicked with nobody to recover it.
var errNoReturn = errors.New("the handler did not return: it panicked, or ended its goroutine")

// Logging logs every call that returned, at level Debug, with its outcome and how
// long it took, to the logger of its events; see Logger. Failures are logged by
// the processor in any case. With log not nil it is also what Logger answers
// further in.
func Logging(log *slog.Logger) Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, call *Call) error {
			if log != nil {
				ctx = WithLogger(ctx, log)
			}
			began := time.Now()
			err := next(ctx, call)
			if !base(ctx).Enabled(ctx, slog.LevelDebug) {
				return err
			}
			attrs := []slog.Attr{slog.String("outcome", string(OutcomeOf(err))), slog.Duration("took", time.Since(began))}
			if err != nil {
				attrs = append(attrs, slog.String("error", err.Error()))
			}
			Logger(ctx).LogAttrs(ctx, slog.LevelDebug, "handler returned", attrs...)
			return err
		}
	}
}

type loggerKey struct{}

// WithLogger sets the logger that Logger adds the event's fields to. A processor
// does so with its own. For more fields there is WithLogFields: a logger that
// came from Logger has the event's already, and would have them twice.
func WithLogger(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(ctx, loggerKey{}, log)
}

// WithLogFields has Logger add more fields further in, as slog.Logger.With takes
// them. Middleware that knows whose event it is says so with it:
//
//	return next(handlers.WithLogFields(ctx, "tenant", name), call)
func WithLogFields(ctx context.Context, args ...any) context.Context {
	return WithLogger(ctx, base(ctx).With(args...))
}

func base(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(loggerKey{}).(*slog.Logger); ok && log != nil {
		return log
	}
	return slog.Default()
}

// Logger gives a logger whose lines carry the event that the context's handler
// runs for: its id, aggregate, type, position and attempt; of several events, how
// many and the first. Its logger is that of WithLogger or slog.Default. In a
// context of no handler it has no fields. Keep it in a variable: each call of
// Logger makes the fields anew.
func Logger(ctx context.Context) *slog.Logger {
	log := base(ctx)
	call, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		return log
	}
	first := call.Events[0]
	attrs := []any{
		slog.String("event_id", first.ID), slog.String("aggregate_id", first.AggregateID), slog.String("event_type", first.Type),
		slog.Int64("position", first.Position), slog.Int("attempt", first.Attempt),
	}
	if first.Replay {
		attrs = append(attrs, slog.Bool("replay", true))
	}
	if n := len(call.Events); n > 1 {
		attrs = append(attrs, slog.Int("events", n))
	}
	return log.With(attrs...)
}
