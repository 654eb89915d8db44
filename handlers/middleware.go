package handlers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Recover turns a panic of the handler into a *PanicError, for middleware
// further out to see. Without it a panic is a failed attempt all the same.
func Recover() Middleware {
	return func(next Handler) Handler {
		return func(ctx context.Context, call *Call) (err error) {
			defer func() {
				if v := recover(); v != nil {
					err = &PanicError{Value: v, Stack: debug.Stack()}
				}
			}()
			return next(ctx, call)
		}
	}
}

// Timeout gives each call at most d. A call that exceeds it has failed with a
// *TimeoutError, also if it returned nil. It cannot end a handler that ignores
// its context; the processor gives up on such a one. Of a queued handler it
// bounds the queueing, not the statements. It cannot allow more than the
// processor's handler time-out; WithTimeout can, for one type.
func Timeout(d time.Duration) Middleware {
	if d <= 0 {
		panic(fmt.Sprintf("handlers: Timeout needs a positive duration, not %s", d))
	}
	exceeded := &TimeoutError{Limit: d}
	return func(next Handler) Handler {
		return func(ctx context.Context, call *Call) error {
			limited, cancel := context.WithTimeoutCause(ctx, d, exceeded)
			defer cancel()
			err := next(limited, call)
			if cause := context.Cause(limited); errors.Is(cause, exceeded) && !errors.Is(err, exceeded) {
				return errors.Join(cause, err)
			} else if err == nil {
				return cause
			}
			return err
		}
	}
}

// Validate refuses events whose data the function answers with an error: the
// lane is stuck at once, unless the error is another outcome. T is as for DataOf,
// often an interface with a method Validate; handlers whose data is not a T pass.
// WithValidation is the same for one type, and fails at start-up if T is not its
// data.
func Validate[T any](valid func(data T) error) Middleware {
	if valid == nil {
		panic("handlers: the function of Validate is nil")
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, call *Call) error {
			if call.entry == nil || !holds[T](call.entry.payload.data) {
				return next(ctx, call)
			}
			data, err := DataOf[T](call)
			if err != nil {
				return err
			}
			for i, d := range data {
				if err := valid(d); err != nil {
					return lasting(fmt.Errorf("event %s is not valid: %w", call.Events[i].ID, err))
				}
			}
			return next(ctx, call)
		}
	}
}
