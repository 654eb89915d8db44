package handlers

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Event is an event whose payload was decoded into T.
type Event[T any] struct {
	Message
	// Data is the payload, decoded from JSON. With T []byte, json.RawMessage or
	// string it is the payload as it came.
	Data T
}

// On registers a handler for one event at a time. It gets the lane's
// transaction: what it writes through tx, and the lane's progress, commit
// together. The transaction may hold other events as well; a handler must not
// commit it or roll it back.
//
// A payload that cannot be decoded into T makes the lane stuck.
func On[T any](r *Registry, eventType string, handle func(ctx context.Context, tx pgx.Tx, e Event[T]) error) {
	mustHave(handle != nil, eventType)
	r.add(&Entry{Type: eventType, Form: Direct, handler: func(ctx context.Context, call *Call) error {
		event, err := typed[T](call.Events[0])
		if err != nil {
			return err
		}
		return handle(ctx, call.Tx, event)
	}})
}

// OnQueue registers a handler that only queues statements for one event. They
// are sent together with those of its neighbours, which is several times faster
// than a round trip each. A statement that fails fails the event; results can
// be read with the callbacks of pgx.QueuedQuery.
func OnQueue[T any](r *Registry, eventType string, queue func(ctx context.Context, b *pgx.Batch, e Event[T]) error) {
	mustHave(queue != nil, eventType)
	r.add(&Entry{Type: eventType, Form: Queued, handler: func(ctx context.Context, call *Call) error {
		event, err := typed[T](call.Events[0])
		if err != nil {
			return err
		}
		return queue(ctx, call.Batch, event)
	}})
}

// OnBatch registers a handler that gets several events of one lane, in order,
// and may answer them with one statement. All of them are done or none: when it
// fails, the events are run one by one, so that only the guilty one waits.
func OnBatch[T any](r *Registry, eventType string, handle func(ctx context.Context, tx pgx.Tx, events []Event[T]) error) {
	mustHave(handle != nil, eventType)
	r.add(&Entry{Type: eventType, Form: Batched, handler: func(ctx context.Context, call *Call) error {
		events := make([]Event[T], len(call.Events))
		for i, m := range call.Events {
			event, err := typed[T](m)
			if err != nil {
				return err
			}
			events[i] = event
		}
		return handle(ctx, call.Tx, events)
	}})
}

func mustHave(ok bool, eventType string) {
	if !ok {
		panic(fmt.Sprintf("handlers: the handler of event type %q is nil", eventType))
	}
}

func typed[T any](m *Message) (Event[T], error) {
	e := Event[T]{Message: *m}
	switch data := any(&e.Data).(type) {
	case *[]byte:
		*data = m.Payload
	case *json.RawMessage:
		*data = m.Payload
	case *string:
		*data = string(m.Payload)
	default:
		if err := json.Unmarshal(m.Payload, &e.Data); err != nil {
			return e, Permanent(fmt.Errorf("decode payload of %s into %T: %w", m.Type, e.Data, err))
		}
	}
	return e, nil
}
