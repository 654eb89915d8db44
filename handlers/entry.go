package handlers

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
)

// Form is how a handler does its work; see the package's doc for the choice.
type Form int

// The forms.
const (
	// Direct handlers get the transaction and one event (On).
	Direct Form = iota
	// Queued handlers only queue statements (OnQueue, SQL).
	Queued
	// Batched handlers get the transaction and several events of one lane (OnBatch).
	Batched
	// Ignored types pass without a handler (Ignore).
	Ignored
)

// String is the form's name in lower case.
func (f Form) String() string {
	switch f {
	case Direct:
		return "direct"
	case Queued:
		return "queued"
	case Batched:
		return "batched"
	case Ignored:
		return "ignored"
	}
	return fmt.Sprintf("form %d", int(f))
}

// Entry is what is registered for one event type, for whoever runs handlers.
type Entry struct {
	// Type is the event type. Aliases of it have the same Entry.
	Type string
	// Form says what a Call has to bring.
	Form Form
	// Max is the most events of one call, for batched handlers; 0: no limit
	// but the lane's own.
	Max int
	// Doc says in a sentence what the handler does, if it was given.
	Doc string
	// Retry is the policy of the type; nil: the processor's.
	Retry *Retry
	// Isolation is that of the transaction; "": read committed.
	Isolation pgx.TxIsoLevel
	// Timeout is how long a call may take; 0: the processor's handler time-out.
	// Whoever calls Handle sees to it.
	Timeout time.Duration
	// OwnTransaction says that each event has a transaction that no other event
	// shares, neither of its lane nor of others. Whoever calls Handle sees to it.
	OwnTransaction bool

	handler    Handler
	middleware []Middleware
	outer      []Middleware // the registry's, once sealed
	request    func(ctx context.Context, call *Call) (Request, error)
	payload    *payload
	look       func(call *Call) ([]any, error) // the data for middleware
	single     Handler                         // for calls of one event, in place of handler; nil: none
	statements []string                        // of an SQL handler
}

// Handle runs the handler within its middleware and that of the registry. The
// context that they get knows the call; see Logger.
func (e *Entry) Handle(ctx context.Context, call *Call) error {
	call.entry = e
	return e.handler(context.WithValue(ctx, callKey{}, call), call)
}

type callKey struct{}

// newEntry makes an entry for a handler of data of type T.
func newEntry[T any](eventType string, form Form) *Entry {
	p := &payload{eventType: eventType, data: reflect.TypeFor[T](), codec: JSON{}}
	return &Entry{Type: eventType, Form: form, payload: p,
		look: func(call *Call) ([]any, error) { return look[T](p, call) }}
}

// check says what is wrong with the entry once its options are set.
func (e *Entry) check() error {
	if err := checkData(e.payload.data, e.payload.codec); err != nil {
		return fmt.Errorf("the handler of event type %q: %w", e.Type, err)
	}
	if e.payload.version != nil {
		if err := checkSteps(e.payload.steps, e.payload); err != nil {
			return fmt.Errorf("WithVersions on event type %q: %w", e.Type, err)
		}
	}
	return nil
}

// wrapped is the entry as it is run.
func (e *Entry) wrapped(outer []Middleware) *Entry {
	w := *e
	w.outer = outer
	if e.Form == Ignored {
		return &w
	}
	if e.single != nil {
		one, several := e.single, e.handler
		w.handler = func(ctx context.Context, call *Call) error {
			if len(call.Events) == 1 {
				return one(ctx, call)
			}
			return several(ctx, call)
		}
	}
	w.handler = w.chain(w.handler)
	return &w
}

// chain wraps a handler in the entry's middleware, and that in the registry's.
func (e *Entry) chain(h Handler) Handler {
	for _, middleware := range [][]Middleware{e.middleware, e.outer} {
		for i := len(middleware) - 1; i >= 0; i-- {
			if h = middleware[i](h); h == nil {
				panic(fmt.Sprintf("handlers: a middleware of event type %q made a nil handler; it has to make one that calls the next", e.Type))
			}
		}
	}
	return h
}
