package handlers_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

func TestMiddlewareWrapsInOrder(t *testing.T) {
	t.Parallel()
	var trace []string
	named := func(name string) handlers.Middleware {
		return func(next handlers.Handler) handlers.Handler {
			return func(ctx context.Context, call *handlers.Call) error {
				trace = append(trace, name)
				return next(ctx, call)
			}
		}
	}
	reg := handlers.New()
	handlers.On(reg, "A", func(context.Context, pgx.Tx, handlers.Event[orderPaid]) error {
		trace = append(trace, "handler")
		return nil
	}, handlers.WithMiddleware(named("3"), named("4")), handlers.WithMiddleware(named("5")))
	reg.Use(named("1"), named("2")) // holds for what was registered before, too
	if err := run(t, reg, message("A", `{}`)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1", "2", "3", "4", "5", "handler"}; !slices.Equal(trace, want) {
		t.Errorf("got %v", trace)
	}
}

func TestRecover(t *testing.T) {
	t.Parallel()
	cause := errors.New("cause")
	reg := handlers.New()
	reg.Use(handlers.Recover())
	handlers.On(reg, "A", func(context.Context, pgx.Tx, handlers.Event[orderPaid]) error { panic(cause) })
	err := run(t, reg, message("A", `{}`))
	var panicked *handlers.PanicError
	if !errors.As(err, &panicked) || !errors.Is(err, cause) || len(panicked.Stack) == 0 || err.Error() != "panic: cause" {
		t.Errorf("got %v", err)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := error(nil)
		took := time.Duration(0)
		handle := func(ctx context.Context, _ pgx.Tx, _ handlers.Event[orderPaid]) error {
			time.Sleep(took)
			return answer
		}
		reg := handlers.New()
		reg.Use(handlers.Timeout(time.Minute))
		handlers.On(reg, "usual", handle)
		handlers.On(reg, "own", handle, handlers.WithMiddleware(handlers.Timeout(time.Second)))
		failed := errors.New("failed")
		for _, tc := range []struct {
			eventType string
			took      time.Duration
			answer    error
			limit     time.Duration // that was exceeded
		}{
			{"usual", 59 * time.Second, nil, 0},
			{"usual", 59 * time.Second, failed, 0},
			{"usual", 61 * time.Second, nil, time.Minute},
			{"usual", 61 * time.Second, failed, time.Minute},
			{"own", 999 * time.Millisecond, nil, 0},
			{"own", 2 * time.Second, handlers.Permanent(failed), time.Second},
		} {
			took, answer = tc.took, tc.answer
			err := run(t, reg, message(tc.eventType, `{}`))
			var exceeded *handlers.TimeoutError
			if errors.As(err, &exceeded) != (tc.limit > 0) || exceeded != nil && exceeded.Limit != tc.limit {
				t.Errorf("%+v: got %v", tc, err)
			}
			if tc.answer != nil && !errors.Is(err, failed) {
				t.Errorf("%+v: the handler's own error is lost: %v", tc, err)
			}
		}
	})
}

func TestTimeoutIsNoneIfTheContextEnds(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	handlers.On(reg, "A", func(ctx context.Context, _ pgx.Tx, _ handlers.Event[orderPaid]) error {
		<-ctx.Done()
		return nil
	}, handlers.WithMiddleware(handlers.Timeout(time.Hour)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := reg.Seal()["A"].Handle(ctx, &handlers.Call{Events: messages("A", `{}`)})
	var exceeded *handlers.TimeoutError
	if !errors.Is(err, context.Canceled) || errors.As(err, &exceeded) {
		t.Errorf("got %v", err)
	}
}

// What is valid says by its method.
type valid interface{ Validate() error }

type checked struct{ Amount int64 }

func (c *checked) Validate() error {
	if c.Amount < 0 {
		return errors.New("the amount is negative")
	}
	return nil
}

func TestValidate(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	reg.Use(handlers.Validate(func(v valid) error { return v.Validate() }))
	reg.Use(handlers.Validate(func(o *orderPaid) error {
		if o.Currency == "none" {
			return errors.New("there is no currency")
		}
		return nil
	}))
	byValue, byPointer, other := keep[checked](reg, "value"), keep[*checked](reg, "pointer"), keep[orderPaid](reg, "other")
	keep[orderPaid](reg, "own", handlers.WithValidation(func(o orderPaid) error {
		if o.Amount == 0 {
			return handlers.Skip(errors.New("nothing was paid"))
		}
		return nil
	}))
	for _, eventType := range []string{"value", "pointer", "other"} {
		if err := run(t, reg, message(eventType, `{"Amount": 1}`)); err != nil {
			t.Error(err)
		}
		err := run(t, reg, message(eventType, `{"Amount": -1}`))
		if eventType == "other" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		wantText(t, text(err), "event e-1 is not valid: the amount is negative")
		if handlers.OutcomeOf(err) != handlers.Stuck {
			t.Errorf("%v is %s", err, handlers.OutcomeOf(err))
		}
	}
	if len(*byValue) != 1 || len(*byPointer) != 1 || len(*other) != 2 {
		t.Errorf("%v %v %v", *byValue, *byPointer, *other)
	}
	if got := handlers.OutcomeOf(run(t, reg, message("own", `{}`))); got != handlers.Skipped {
		t.Errorf("a validation that skips is %s", got)
	}
	wantText(t, text(run(t, reg, message("other", `{"Currency": "none"}`))), "there is no currency")
	wantText(t, text(run(t, reg, message("value", `no`))), "decode payload of value")
}
