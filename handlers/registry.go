package handlers

import (
	"context"
	"fmt"
	"sort"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
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

// Message is one event on its way to a handler, payload undecoded.
type Message struct {
	inbox.Event
	// Attempt counts from 1 within the event's present run of attempts.
	Attempt int
	// Replay says that an operator ordered the lane to run again from an
	// earlier event: the handler has seen this event before.
	Replay bool
}

// Call is one invocation of a handler, as middleware sees it.
type Call struct {
	// Events holds one event, or, for a batched handler, several of one lane
	// and type, in order. Never empty.
	Events []*Message
	// Tx is the lane's transaction; nil for a queued handler.
	Tx pgx.Tx
	// Batch takes the statements of a queued handler; nil for the others.
	Batch *pgx.Batch
}

// Handler runs one call. Nil means done; any error undoes what the call wrote
// and is the attempt's outcome, see Permanent, RetryAfter, Skip and Pause.
type Handler func(ctx context.Context, call *Call) error

// Middleware wraps a handler.
type Middleware func(next Handler) Handler

// Entry is what is registered for one event type.
type Entry struct {
	Type string
	Form Form
	// Max is the most events of one call, for batched handlers; 0: no limit
	// but the lane's own.
	Max     int
	handler Handler
}

// Handle runs the handler within the middleware of its registry.
func (e *Entry) Handle(ctx context.Context, call *Call) error { return e.handler(ctx, call) }

// Registry knows a handler for each event type. Register everything before the
// registry is used; from then on it only answers. Mistakes in registering panic:
// they are found at start-up.
type Registry struct {
	entries    map[string]*Entry
	middleware []Middleware

	sealing sync.Mutex
	sealed  map[string]*Entry
}

// New makes an empty registry.
func New() *Registry {
	return &Registry{entries: map[string]*Entry{}}
}

// Use wraps every handler, those registered earlier included, in middleware;
// the first is the outermost.
func (r *Registry) Use(middleware ...Middleware) {
	for _, m := range middleware {
		if m == nil {
			panic("handlers: Use was given a nil middleware")
		}
	}
	r.unsealed("Use")
	r.middleware = append(r.middleware, middleware...)
}

// Ignore names event types that need no handler: ingest drops them, counted,
// and one that is stored already passes its lane as processed.
func (r *Registry) Ignore(eventTypes ...string) {
	for _, t := range eventTypes {
		r.add(&Entry{Type: t, Form: Ignored, handler: func(context.Context, *Call) error { return nil }})
	}
}

// Ignores reports whether the type was given to Ignore.
func (r *Registry) Ignores(eventType string) bool {
	e, ok := r.entries[eventType]
	return ok && e.Form == Ignored
}

// Types lists the registered event types in order, ignored ones included.
func (r *Registry) Types() []string {
	types := make([]string, 0, len(r.entries))
	for t := range r.entries {
		types = append(types, t)
	}
	sort.Strings(types)
	return types
}

// Has reports whether the type is registered or ignored.
func (r *Registry) Has(eventType string) bool {
	_, ok := r.entries[eventType]
	return ok
}

// Seal ends registering and gives the entries, each handler within the
// middleware. Registering afterwards panics. It may be called more than once,
// also at the same time.
func (r *Registry) Seal() map[string]*Entry {
	r.sealing.Lock()
	defer r.sealing.Unlock()
	if r.sealed != nil {
		return r.sealed
	}
	r.sealed = make(map[string]*Entry, len(r.entries))
	for t, e := range r.entries {
		wrapped := *e
		if e.Form != Ignored {
			for i := len(r.middleware) - 1; i >= 0; i-- {
				wrapped.handler = r.middleware[i](wrapped.handler)
			}
		}
		r.sealed[t] = &wrapped
	}
	return r.sealed
}

func (r *Registry) unsealed(doing string) {
	r.sealing.Lock()
	defer r.sealing.Unlock()
	if r.sealed != nil {
		panic(fmt.Sprintf("handlers: %s after the registry is in use; register everything before", doing))
	}
}

func (r *Registry) add(e *Entry) {
	r.unsealed("registering " + e.Type)
	if e.Type == "" {
		panic("handlers: a handler was registered for an empty event type")
	}
	if _, ok := r.entries[e.Type]; ok {
		panic(fmt.Sprintf("handlers: event type %q is registered twice", e.Type))
	}
	r.entries[e.Type] = e
}
