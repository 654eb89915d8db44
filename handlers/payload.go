package handlers

import (
	"fmt"
	"reflect"
	"slices"
)

// payload is how the events of an entry become its handler's data.
type payload struct {
	eventType string       // of the entry; aliases have others
	data      reflect.Type // what the handler takes
	codec     Codec
	version   VersionOf
	steps     []Step            // steps[i] leads from version i+1 to i+2
	older     map[string][]Step // by the name of the older type; set by Check
}

// since gives the steps that lead from the message to the handler's data.
func (p *payload) since(m *Message) ([]Step, error) {
	if m.Type != p.eventType {
		if steps, ok := p.older[m.Type]; ok {
			return steps, nil
		}
	}
	if p.version == nil {
		return nil, nil
	}
	v, err := p.version(m)
	if err != nil {
		return nil, lasting(fmt.Errorf("version of %s: %w", m.Type, err))
	}
	current := len(p.steps) + 1
	if v < 1 || v > current {
		return nil, Permanent(fmt.Errorf("%s has version %d, but this program knows versions 1 to %d", m.Type, v, current))
	}
	return p.steps[v-1:], nil
}

// upcast runs steps, the first on the payload of m.
func (p *payload) upcast(m *Message, steps []Step) (any, error) {
	var v any
	for _, step := range steps {
		var err error
		if v, err = step.run(p.codec, m, v); err != nil {
			return nil, lasting(fmt.Errorf("upcast %s from %s to %s: %w", m.Type, step.from, step.to, err))
		}
	}
	return v, nil
}

// raw gives the message with the payload that a handler of raw data gets.
func (p *payload) raw(m *Message) (*Message, error) {
	steps, err := p.since(m)
	if err != nil || len(steps) == 0 {
		return m, err
	}
	v, err := p.upcast(m, steps)
	if err != nil {
		return nil, err
	}
	upcast := *m
	upcast.Payload, _ = rawBytes(v) // Check sees to the type
	return &upcast, nil
}

// decode makes the event of a message.
func decode[T any](p *payload, m *Message, e *Event[T]) error {
	e.Message = *m
	steps, err := p.since(m)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return decodeInto(p.codec, m, &e.Data)
	}
	v, err := p.upcast(m, steps)
	if err != nil {
		return err
	}
	if data, ok := v.(T); ok {
		e.Data = data
		return nil
	}
	upcast := *m
	upcast.Payload, _ = rawBytes(v)
	return decodeInto(p.codec, &upcast, &e.Data)
}

// eventOf gives the event of a call of one event.
func eventOf[T any](p *payload, call *Call) (*Event[T], error) {
	if events, ok := call.seen().([]Event[T]); ok {
		return &events[0], nil
	}
	e := new(Event[T])
	return e, decode(p, call.Events[0], e)
}

// eventsOf gives the events of a call.
func eventsOf[T any](p *payload, call *Call) ([]Event[T], error) {
	if events, ok := call.seen().([]Event[T]); ok {
		return events, nil
	}
	events := make([]Event[T], len(call.Events))
	for i, m := range call.Events {
		if err := decode(p, m, &events[i]); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// look decodes the events of a call for middleware, and keeps them for the
// handler. It gives pointers to their data.
func look[T any](p *payload, call *Call) ([]any, error) {
	events, err := eventsOf[T](p, call)
	if err != nil {
		return nil, err
	}
	call.decoded = &decoded{of: slices.Clone(call.Events), events: events}
	data := make([]any, len(events))
	for i := range events {
		data[i] = &events[i].Data
	}
	return data, nil
}

// decoded is what middleware had decoded before the handler ran.
type decoded struct {
	of     []*Message
	events any // []Event[T], T the handler's type
}

// seen gives what was decoded before, unless the events were changed since.
func (c *Call) seen() any {
	if c.decoded == nil || !slices.Equal(c.decoded.of, c.Events) {
		return nil
	}
	return c.decoded.events
}
