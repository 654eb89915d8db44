package handlers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// orderPaid is what most tests decode.
type orderPaid struct {
	Amount   int64
	Currency string
}

func message(eventType, payload string) *handlers.Message {
	return &handlers.Message{
		Event:   inbox.Event{ID: "e-1", AggregateID: "order-7", Type: eventType, Payload: []byte(payload), Position: 3},
		Attempt: 1,
	}
}

// messages gives events of one type, their ids e-1, e-2, …
func messages(eventType string, payloads ...string) []*handlers.Message {
	list := make([]*handlers.Message, len(payloads))
	for i, p := range payloads {
		list[i] = message(eventType, p)
		list[i].ID = fmt.Sprintf("e-%d", i+1)
		list[i].Position = int64(i + 1)
	}
	return list
}

// run runs the handler of the first event's type, as a processor does.
func run(t testing.TB, reg *handlers.Registry, events ...*handlers.Message) error {
	t.Helper()
	_, err := queued(t, reg, events...)
	return err
}

// queued is run, and gives the statements of a queued handler.
func queued(t testing.TB, reg *handlers.Registry, events ...*handlers.Message) (*pgx.Batch, error) {
	t.Helper()
	entry := reg.Seal()[events[0].Type]
	if entry == nil {
		t.Fatalf("no handler for %s", events[0].Type)
	}
	batch := &pgx.Batch{}
	call := &handlers.Call{Events: events}
	if entry.Form == handlers.Queued {
		call.Batch = batch
	}
	return batch, entry.Handle(t.Context(), call)
}

// keep registers a handler that keeps the data it got.
func keep[T any](reg *handlers.Registry, eventType string, opts ...handlers.Option) *[]T {
	var got []T
	handlers.On(reg, eventType, func(_ context.Context, _ pgx.Tx, e handlers.Event[T]) error {
		got = append(got, e.Data)
		return nil
	}, opts...)
	return &got
}

func done[T any](context.Context, pgx.Tx, handlers.Event[T]) error { return nil }

// panics gives the text of the panic that f ends with, or "".
func panics(f func()) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprint(v)
		}
	}()
	f()
	return ""
}

func wantText(t testing.TB, got, want string) {
	t.Helper()
	if (want == "") != (got == "") || !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
