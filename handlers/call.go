package handlers

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
)

// Call is one invocation of a handler, as middleware sees it.
type Call struct {
	// Events holds one event, or, for a batched handler, several of one lane
	// and handler, in order. Never empty.
	Events []*Message
	// Tx is the lane's transaction; nil for a queued handler.
	Tx pgx.Tx
	// Batch takes the statements of a queued handler; nil for the others.
	Batch *pgx.Batch

	entry   *Entry
	decoded *decoded
}

// Handler runs one call. Nil means done; any error undoes what the call wrote
// and is the attempt's outcome, see Permanent, RetryAfter, Skip, Pause and Later.
type Handler func(ctx context.Context, call *Call) error

// Middleware wraps a handler.
type Middleware func(next Handler) Handler

// Type is the event type that the handler is registered for. An event that came
// by an alias has another one, the older, as its own.
func (c *Call) Type() string {
	if c.entry != nil {
		return c.entry.Type
	}
	return c.Events[0].Type
}

// Form is the form of the handler.
func (c *Call) Form() Form {
	if c.entry != nil {
		return c.entry.Form
	}
	if c.Batch != nil {
		return Queued
	}
	return Direct
}

// ErrOtherType is returned by DataOf when the handler's data is not a T.
var ErrOtherType = errors.New("the handler takes data of another type")

// DataOf gives middleware the data of each event of a call, decoded as the
// handler will get it; nothing is decoded twice. T is the type of the handler's
// data, a pointer to it, or an interface that one of them implements:
//
//	owned, err := handlers.DataOf[interface{ Tenant() string }](call)
//
// An error is an ErrOtherType, which most middleware passes over by going on, or
// says why the payload cannot be decoded; then it is the outcome to return.
func DataOf[T any](call *Call) ([]T, error) {
	if call.entry == nil {
		return nil, fmt.Errorf("%w: the call is of no registered handler", ErrOtherType)
	}
	if !holds[T](call.entry.payload.data) {
		return nil, fmt.Errorf("%w: %s, not %s", ErrOtherType, call.entry.payload.data, reflect.TypeFor[T]())
	}
	values, err := call.entry.look(call)
	if err != nil {
		return nil, err
	}
	data := make([]T, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case *T:
			data[i] = *v
		case T:
			data[i] = v
		default: // the data is itself a pointer, and that implements T
			data[i] = reflect.ValueOf(v).Elem().Interface().(T)
		}
	}
	return data, nil
}

// holds reports whether data of a type, or a pointer to it, is a T.
func holds[T any](data reflect.Type) bool {
	t, pointer := reflect.TypeFor[T](), reflect.PointerTo(data)
	return data == t || pointer == t || t.Kind() == reflect.Interface && (data.Implements(t) || pointer.Implements(t))
}
