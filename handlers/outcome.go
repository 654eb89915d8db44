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
	// ErrLater is in every error made by Later.
	ErrLater = errors.New("later")
	// ErrRetryAfter is in every error made by RetryAfter.
	ErrRetryAfter = errors.New("retry after")
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

// Pause says that something the handler depends on is down: all events of the type
// wait, in every process, and use up no attempt. One at a time runs to find out
// when it is back.
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
	// Err is the cause; it may be nil.
	Err error
}

// Error is the cause's text, or how long to wait if there is no cause.
func (e *RetryAfterError) Error() string { return textOr(e.Err, "try again after", e.After) }

// Unwrap gives the cause.
func (e *RetryAfterError) Unwrap() error { return e.Err }

// Is reports that the error is an ErrRetryAfter.
func (e *RetryAfterError) Is(target error) bool { return target == ErrRetryAfter }

// RetryAfter sets the time to the next attempt, in place of the policy's. The
// attempt counts. A negative d is 0.
func RetryAfter(err error, d time.Duration) error {
	return &RetryAfterError{After: max(d, 0), Err: err}
}

// LaterError is made by Later.
type LaterError struct {
	// After is how long the event waits.
	After time.Duration
	// Err is the reason; it may be nil.
	Err error
}

// Error is the reason's text, or how long to wait if there is no reason.
func (e *LaterError) Error() string { return textOr(e.Err, "not now, but after", e.After) }

// Unwrap gives the reason.
func (e *LaterError) Unwrap() error { return e.Err }

// Is reports that the error is an ErrLater.
func (e *LaterError) Is(target error) bool { return target == ErrLater }

// Later has the event wait for d and run then, as if it had not run now: no
// attempt is used up and nothing has failed. RateLimit and Concurrency answer
// with it. A negative d is 0.
func Later(err error, d time.Duration) error {
	return &LaterError{After: max(d, 0), Err: err}
}

func textOr(err error, otherwise string, d time.Duration) string {
	if err == nil {
		return fmt.Sprintf("%s %s", otherwise, d)
	}
	return err.Error()
}

// PanicError is the outcome of a call that panicked. It is a failed attempt
// like another.
type PanicError struct {
	// Value is what panic was called with.
	Value any
	// Stack is where, as runtime/debug.Stack writes it.
	Stack []byte
}

// Error is "panic: " and the value; the stack is apart.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap gives the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// TimeoutError is the outcome of a call that took longer than Timeout, WithTimeout
// or the processor's handler time-out allows. It is a failed attempt like another.
type TimeoutError struct {
	// Limit is what was allowed.
	Limit time.Duration
}

// Error names the limit.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the handler took longer than %s", e.Limit)
}

// Outcome is what an answer of a handler means, as a word for metrics and logs.
type Outcome string

// The outcomes.
const (
	// Done is nil.
	Done Outcome = "done"
	// Failed is a plain error: the policy says when the event runs again.
	Failed Outcome = "failed"
	// Stuck is an error of Permanent.
	Stuck Outcome = "stuck"
	// Retried is an error of RetryAfter.
	Retried Outcome = "retry_after"
	// Skipped is an error of Skip.
	Skipped Outcome = "skipped"
	// Paused is an error of Pause.
	Paused Outcome = "paused"
	// Postponed is an error of Later.
	Postponed Outcome = "later"
)

// OutcomeOf says what an error of a handler means. Of an error that is several
// of them the first counts: skip, later, pause, permanent, retry after. A failed
// attempt may be the last one; then the lane is stuck all the same.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case errors.Is(err, ErrSkip):
		return Skipped
	case errors.Is(err, ErrLater):
		return Postponed
	case errors.Is(err, ErrPause):
		return Paused
	case errors.Is(err, ErrPermanent):
		return Stuck
	case errors.Is(err, ErrRetryAfter):
		return Retried
	}
	return Failed
}
