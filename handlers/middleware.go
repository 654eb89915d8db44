package handlers

import (
	"context"
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

// Timeout gives each call at most d. A call that exceeds it has failed, also if
// it returned nil.
func Timeout(d time.Duration) Middleware {
	if d <= 0 {
		panic(fmt.Sprintf("handlers: Timeout needs a positive duration, not %s", d))
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, call *Call) error {
			ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("the handler took longer than %s", d))
			defer cancel()
			if err := next(ctx, call); err != nil {
				return err
			}
			return context.Cause(ctx)
		}
	}
}
