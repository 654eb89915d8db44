package handlers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/inboxd/inboxd/inbox"
)

// Registry knows a handler for each event type. Register everything before the
// registry is used; from then on it only answers, and many may ask at once.
// Mistakes in registering panic: they are found at start-up. Make one with New.
type Registry struct {
	entries    map[string]*Entry
	aliases    map[string]alias
	middleware []Middleware
	defaults   []Option

	sealing sync.Mutex
	sealed  map[string]*Entry
}

// New makes an empty registry. Options hold for every handler that they fit and
// that does not say otherwise itself.
func New(opts ...Option) *Registry {
	for _, o := range opts {
		if err := o.forRegistry(); err != nil {
			panic("handlers: " + err.Error())
		}
	}
	return &Registry{entries: map[string]*Entry{}, aliases: map[string]alias{}, defaults: opts}
}

// Use wraps every handler, those registered earlier included, in middleware;
// the first is the outermost.
func (r *Registry) Use(middleware ...Middleware) {
	r.mustBe("middleware")
	for _, m := range middleware {
		if m == nil {
			panic("handlers: Use was given a nil middleware")
		}
	}
	r.middleware = append(r.middleware, middleware...)
}

// Ignore names event types that need no handler: ingest drops them, counted,
// and one that is stored already passes its lane as processed.
func (r *Registry) Ignore(eventTypes ...string) {
	r.mustBe("ignored types")
	for _, t := range eventTypes {
		r.add(&Entry{Type: t, Form: Ignored, handler: func(context.Context, *Call) error { return nil }}, nil)
	}
}

// Ignores reports whether the type was given to Ignore.
func (r *Registry) Ignores(eventType string) bool {
	e, ok := r.entries[eventType]
	return ok && e.Form == Ignored
}

// Types lists the registered event types in order, ignored ones and aliases
// included.
func (r *Registry) Types() []string {
	types := slices.AppendSeq(slices.Collect(maps.Keys(r.entries)), maps.Keys(r.aliases))
	slices.Sort(types)
	return types
}

// Has reports whether the type is registered, an alias or ignored.
func (r *Registry) Has(eventType string) bool {
	_, isAlias := r.aliases[eventType]
	_, ok := r.entries[eventType]
	return ok || isAlias
}

// Check says what is wrong with the registry as a whole: aliases that lead
// nowhere, in a circle, or to data of another type. It is for when everything is
// registered; ordering.New asks it.
func (r *Registry) Check() error {
	if r == nil || r.entries == nil {
		return errors.New("the registry is nil or empty; make one with handlers.New()")
	}
	var errs []error
	for _, older := range slices.Sorted(maps.Keys(r.aliases)) {
		if _, _, err := r.resolve(older); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Seal ends registering and gives the entries by event type, each handler within
// its middleware; an alias has the entry of what it is an alias of. Registering
// afterwards panics, and so does Seal with what Check finds, or if a middleware
// makes no handler. It may be called more than once, also at the same time.
func (r *Registry) Seal() map[string]*Entry {
	r.sealing.Lock()
	defer r.sealing.Unlock()
	if r.sealed != nil {
		return r.sealed
	}
	if err := r.Check(); err != nil {
		panic("handlers: " + err.Error())
	}
	sealed := make(map[string]*Entry, len(r.entries)+len(r.aliases))
	for t, e := range r.entries {
		sealed[t] = e.wrapped(r.middleware)
	}
	for older := range r.aliases {
		e, steps, _ := r.resolve(older)
		if e.payload.older == nil {
			e.payload.older = map[string][]Step{}
		}
		e.payload.older[older] = steps
		sealed[older] = sealed[e.Type]
	}
	r.sealed = sealed
	return sealed
}

// mustBe panics if the registry cannot take what is registered.
func (r *Registry) mustBe(what string) {
	if r == nil || r.entries == nil {
		panic(fmt.Sprintf("handlers: the registry for %s is nil or empty; make one with handlers.New()", what))
	}
	r.sealing.Lock()
	defer r.sealing.Unlock()
	if r.sealed != nil {
		panic(fmt.Sprintf("handlers: %s comes after the registry is in use; register everything before", what))
	}
}

// add registers an entry, or panics.
func (r *Registry) add(e *Entry, opts []Option) {
	if err := r.tryAdd(e, opts); err != nil {
		panic("handlers: " + err.Error())
	}
}

// tryAdd is add for handlers that come from a configuration: what is wrong with
// them is an error.
func (r *Registry) tryAdd(e *Entry, opts []Option) error {
	r.mustBe("the handler of " + e.Type)
	if err := checkType(e.Type); err != nil {
		return err
	}
	switch {
	case e.handler == nil:
		return fmt.Errorf("the handler of event type %q is nil", e.Type)
	case r.Has(e.Type):
		return fmt.Errorf("event type %q is registered twice", e.Type)
	}
	if e.Form != Ignored {
		if err := e.set(r.defaults, opts); err != nil {
			return err
		}
	}
	r.entries[e.Type] = e
	return nil
}

// checkType says why no event can have the type: none could be stored.
func checkType(eventType string) error {
	if eventType == "" {
		return errors.New("a handler was registered for an empty event type")
	}
	e := inbox.Event{ID: "any", AggregateID: "any", Type: eventType}
	if err := e.Validate(); err != nil {
		return fmt.Errorf("no event can have the type %.100q: %w", eventType, err)
	}
	return nil
}
