package handlers_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// counting counts how often payloads are decoded.
type counting struct{ n *int }

func (c counting) Decode(m *handlers.Message, into any) error {
	*c.n++
	return handlers.JSON{}.Decode(m, into)
}

func TestDataOfDecodesOnce(t *testing.T) {
	t.Parallel()
	n := 0
	reg := handlers.New(handlers.WithCodec(counting{&n}))
	var seen []orderPaid
	reg.Use(func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, call *handlers.Call) error {
			for range 2 {
				data, err := handlers.DataOf[orderPaid](call)
				if err != nil {
					return err
				}
				seen = append(seen, data...)
			}
			return next(ctx, call)
		}
	})
	got := keep[orderPaid](reg, "A")
	var batch []orderPaid
	handlers.OnBatch(reg, "B", func(_ context.Context, _ pgx.Tx, events []handlers.Event[orderPaid]) error {
		for _, e := range events {
			batch = append(batch, e.Data)
		}
		return nil
	})
	if err := errors.Join(run(t, reg, message("A", `{"Amount": 1}`)), run(t, reg, messages("B", `{"Amount": 2}`, `{"Amount": 3}`)...)); err != nil {
		t.Fatal(err)
	}
	if n != 3 || len(seen) != 6 || (*got)[0].Amount != 1 || batch[1].Amount != 3 {
		t.Errorf("decoded %d times: %v %v %v", n, seen, *got, batch)
	}
}

// A middleware may put other events in place of those that came, also after
// another one has looked at their data.
func TestMiddlewareMayReplaceEvents(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	reg.Use(handlers.Validate(func(orderPaid) error { return nil }), func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, call *handlers.Call) error {
			opened := *call.Events[0]
			opened.Payload = []byte(`{"Amount": 2}`)
			call.Events[0] = &opened
			return next(ctx, call)
		}
	})
	got := keep[orderPaid](reg, "A")
	if err := run(t, reg, message("A", `{"Amount": 1}`)); err != nil || (*got)[0].Amount != 2 {
		t.Errorf("got %v, %v", *got, err)
	}
}

func TestDataOfAnotherType(t *testing.T) {
	t.Parallel()
	var errs []error
	reg := handlers.New()
	reg.Use(func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, call *handlers.Call) error {
			_, err := handlers.DataOf[string](call)
			errs = append(errs, err)
			_, err = handlers.DataOf[interface{ Tenant() string }](call)
			errs = append(errs, err)
			return next(ctx, call)
		}
	})
	keep[orderPaid](reg, "A")
	if err := run(t, reg, message("A", `{}`)); err != nil {
		t.Fatal(err)
	}
	_, err := handlers.DataOf[orderPaid](&handlers.Call{Events: messages("A", `{}`)})
	for _, err := range append(errs, err) {
		if !errors.Is(err, handlers.ErrOtherType) {
			t.Errorf("got %v", err)
		}
	}
	wantText(t, text(errs[0]), "another type: handlers_test.orderPaid, not string")
}
