package handlers

import (
	"errors"
	"fmt"
	"time"
)

// The outcomes of a call besides nil and a plain error. errors.Is tells them
// apart however deep they are wrapped; the cause stays reachable.
var (
	// ErrPermanent is in every error made by Permanent.
	ErrPermanent = errors.New("permanent")
	// ErrSkip is in every error made by Skip.
	ErrSkip = errors.New("skip")
	// ErrPause is in every error made by Pause.
	ErrPause = errors.New("pause")
)

type outcome struct {
	kind error
	err  error
}

func (o *outcome) Error() string   { return o.err.Error() }
func (o *outcome) Unwrap() []error { return []error{o.kind, o.err} }

// Permanent makes the lane stuck now: trying again would not help.
func Permanent(err error) error { return wrap(ErrPermanent, err) }

// Skip passes over the event, on record: it takes no effect, and its followers
// run.
func Skip(err error) error { return wrap(ErrSkip, err) }

// Pause says that something the handler depends on is down: the event waits and
// is tried again later, and no attempt is used up.
func Pause(err error) error { return wrap(ErrPause, err) }

func wrap(kind, err error) error {
	if err == nil {
		err = kind
	}
	return &outcome{kind: kind, err: err}
}

// RetryAfterError is made by RetryAfter.
type RetryAfterError struct {
	// After is how long to wait before the next attempt.
	After time.Duration
	Err   error
}

// Error is the cause's text, or how long to wait if there is no cause.
func (e *RetryAfterError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("try again after %s", e.After)
	}
	return e.Err.Error()
}

// Unwrap gives the cause.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// RetryAfter sets the time to the next attempt, in place of the policy's. The
// attempt counts.
func RetryAfter(err error, d time.Duration) error {
	return &RetryAfterError{After: max(d, 0), Err: err}
}

// PanicError is the outcome of a call that panicked. It is a failed attempt
// like another.
type PanicError struct {
	Value any
	Stack []byte
}

// Error is "panic: " and the value; the stack is apart.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap gives the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
