package handlers

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
)

// Event is an event whose payload was decoded into T.
type Event[T any] struct {
	Message
	// Data is the payload, decoded from JSON or by the codec of WithCodec. With T
	// []byte, json.RawMessage or string it is the payload as it came.
	Data T
}

// On registers a handler for one event at a time. It gets the lane's
// transaction: what it writes through tx, and the lane's progress, commit
// together. The transaction may hold other events as well; a handler must not
// commit it or roll it back.
//
// A payload that cannot be decoded into T makes the lane stuck.
func On[T any](r *Registry, eventType string, handle func(ctx context.Context, tx pgx.Tx, e Event[T]) error, opts ...Option) {
	e := newEntry[T](eventType, Direct)
	if handle != nil {
		e.handler = direct(e.payload, handle)
	}
	r.add(e, opts)
}

func direct[T any](p *payload, handle func(ctx context.Context, tx pgx.Tx, e Event[T]) error) Handler {
	return func(ctx context.Context, call *Call) error {
		event, err := eventOf[T](p, call)
		if err != nil {
			return err
		}
		return handle(ctx, call.Tx, *event)
	}
}

// OnQueue registers a handler that only queues statements for one event. They
// are sent together with those of its neighbours, which is several times faster
// than a round trip each. A statement that fails fails the event; results can
// be read with the callbacks of pgx.QueuedQuery.
func OnQueue[T any](r *Registry, eventType string, queue func(ctx context.Context, b *pgx.Batch, e Event[T]) error, opts ...Option) {
	e := newEntry[T](eventType, Queued)
	if queue != nil {
		e.handler = func(ctx context.Context, call *Call) error {
			event, err := eventOf[T](e.payload, call)
			if err != nil {
				return err
			}
			return queue(ctx, call.Batch, *event)
		}
	}
	r.add(e, opts)
}

// OnBatch registers a handler that gets several events of one lane, in order,
// and may answer them with one statement. All of them are done or none: when it
// fails, the events are run one by one, so that only the guilty one waits. The
// handler may get one event as well; Single sets another function for that.
func OnBatch[T any](r *Registry, eventType string, handle func(ctx context.Context, tx pgx.Tx, events []Event[T]) error, opts ...Option) {
	e := newEntry[T](eventType, Batched)
	if handle != nil {
		e.handler = func(ctx context.Context, call *Call) error {
			events, err := eventsOf[T](e.payload, call)
			if err != nil {
				return err
			}
			return handle(ctx, call.Tx, events)
		}
	}
	r.add(e, opts)
}

// Single gives an OnBatch handler another form for one event, which runs whenever
// there is no more than one: after a batch has failed, and when nothing else
// waits in the lane. It may read and decide where the batch is one statement, but
// its effects have to be the same.
func Single[T any](handle func(ctx context.Context, tx pgx.Tx, e Event[T]) error) Option {
	return Option{name: "Single", perType: true, forms: []Form{Batched}, check: func() error {
		if handle == nil {
			return errors.New("the handler is nil")
		}
		return nil
	}, apply: func(e *Entry) error {
		if t := reflect.TypeFor[T](); t != e.payload.data {
			return fmt.Errorf("it takes %s, but the handler of batches takes %s", t, e.payload.data)
		}
		e.single = direct(e.payload, handle)
		return nil
	}}
}
