package inboxtest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/inboxd/inboxd/inbox"
)

// EventOption sets what an event seldom has.
type EventOption func(*inbox.Event)

// ID names the event. Default: Add names it e1, e2 and so on.
func ID(id string) EventOption { return func(e *inbox.Event) { e.ID = id } }

// Header adds a header.
func Header(name, value string) EventOption {
	return func(e *inbox.Event) {
		e.Headers = append(e.Headers, inbox.Header{Name: name, Value: []byte(value)})
	}
}

// OccurredAt sets the producer's time. Default: the time of storing.
func OccurredAt(at time.Time) EventOption { return func(e *inbox.Event) { e.OccurredAt = at } }

// Sequence sets the producer's own number within the aggregate. Default: none.
func Sequence(n int64) EventOption { return func(e *inbox.Event) { e.Sequence = &n } }

// Event makes an event of an aggregate. Data becomes its payload: as it is if it
// is a []byte, a json.RawMessage or a string, none if it is nil, and else as JSON.
// Data that JSON cannot hold panics.
func Event(aggregate, eventType string, data any, options ...EventOption) inbox.Event {
	e := inbox.Event{AggregateID: aggregate, Type: eventType, Payload: payload(data)}
	for _, o := range options {
		o(&e)
	}
	return e
}

func payload(data any) []byte {
	switch data := data.(type) {
	case nil:
		return nil
	case []byte:
		return data
	case json.RawMessage:
		return data
	case string:
		return []byte(data)
	}
	b, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("inboxtest: the data of an event cannot be written as JSON: %v", err))
	}
	return b
}

// named gives events without an ID the next ones, counting from n.
func named(events []inbox.Event, n *int) []inbox.Event {
	out := make([]inbox.Event, len(events))
	for i, e := range events {
		if e.ID == "" {
			*n++
			e.ID = fmt.Sprintf("e%d", *n)
		}
		out[i] = e
	}
	return out
}

// Add stores events, in their order, and answers what became of each: stored,
// duplicate, or conflict. Nothing runs before Run.
func (k *Kit) Add(events ...inbox.Event) []inbox.Outcome {
	k.t.Helper()
	ctx, cancel := k.context()
	defer cancel()
	outcomes, err := k.Store().Put(ctx, named(events, &k.added))
	if err != nil {
		k.t.Fatalf("%v", err)
	}
	return outcomes
}
