package admin

import (
	"errors"
	"fmt"
)

var (
	// ErrNotFound is in every error about an aggregate, event or quarantined
	// record that does not exist.
	ErrNotFound = errors.New("not found")
	// ErrRefused is in every error about a change that was not made because the
	// state of things does not allow it, or is no longer what was seen.
	ErrRefused = errors.New("refused")
	// ErrInvalid is in every error about a filter or an option that makes no
	// sense; nothing was looked at.
	ErrInvalid = errors.New("invalid")
)

// NotFoundError says what does not exist. It is ErrNotFound.
type NotFoundError struct {
	// Message is the whole sentence.
	Message string
}

// Error is the Message.
func (e *NotFoundError) Error() string { return e.Message }

// Is makes errors.Is(err, ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// RefusedError says why a lane was not changed. It is ErrRefused.
type RefusedError struct {
	// AggregateID names the lane.
	AggregateID string
	// Message is the whole sentence.
	Message string
}

// Error is the Message.
func (e *RefusedError) Error() string { return e.Message }

// Is makes errors.Is(err, ErrRefused) true.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// InvalidError says what is wrong with a filter or an option. It is ErrInvalid.
type InvalidError struct {
	// Message is the whole sentence.
	Message string
}

// Error is the Message.
func (e *InvalidError) Error() string { return e.Message }

// Is makes errors.Is(err, ErrInvalid) true.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) error {
	return &NotFoundError{fmt.Sprintf(format, args...)}
}

func refused(aggregate, format string, args ...any) error {
	return &RefusedError{aggregate, fmt.Sprintf(format, args...)}
}
