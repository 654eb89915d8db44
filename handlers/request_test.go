package handlers_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// sender registers a handler of orderPaid that says what it sends, and counts how
// often it runs.
func sender(reg *handlers.Registry, ran *int, opts ...handlers.Option) {
	handlers.On(reg, "Paid", func(context.Context, pgx.Tx, handlers.Event[orderPaid]) error { *ran++; return nil },
		append(opts, handlers.WithRequest(func(_ context.Context, e handlers.Event[orderPaid]) (handlers.Request, error) {
			if e.Data.Amount < 0 {
				return handlers.Request{}, handlers.Permanent(errors.New("negative"))
			}
			return handlers.Request{Method: "POST", URL: e.Type, Body: []byte(e.Data.Currency)}, nil
		}))...)
}

func rehearse(t testing.TB, reg *handlers.Registry, m *handlers.Message) (*handlers.Request, error) {
	t.Helper()
	return reg.Seal()[m.Type].Rehearse(t.Context(), &handlers.Call{Events: []*handlers.Message{m}})
}

// A rehearsal says the request within all middleware, which may change the event,
// answer for the handler, or try to reach it, and never runs the handler.
func TestRehearse(t *testing.T) {
	t.Parallel()
	forgetful := func(next handlers.Handler) handlers.Handler {
		return func(_ context.Context, call *handlers.Call) error {
			return next(context.Background(), &handlers.Call{Events: call.Events, Tx: call.Tx})
		}
	}
	changes := func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, call *handlers.Call) error {
			m := *call.Events[0]
			m.Payload = []byte(strings.ReplaceAll(string(m.Payload), "EUR", "SEK"))
			call.Events = []*handlers.Message{&m}
			return next(ctx, call)
		}
	}
	answers := func(handlers.Handler) handlers.Handler {
		return func(context.Context, *handlers.Call) error { return nil }
	}
	for name, tc := range map[string]struct {
		middleware handlers.Middleware
		payload    string
		body       string
		outcome    handlers.Outcome
	}{
		"plain":           {handlers.Recover(), `{"Currency":"EUR"}`, "EUR", handlers.Done},
		"changed":         {changes, `{"Currency":"EUR"}`, "SEK", handlers.Done},
		"forgetful":       {forgetful, `{"Currency":"EUR"}`, "EUR", handlers.Done},
		"refused":         {handlers.Validate(func(orderPaid) error { return errors.New("no") }), `{}`, "", handlers.Stuck},
		"not decoded":     {handlers.Recover(), `[]`, "", handlers.Stuck},
		"its own outcome": {handlers.Recover(), `{"Amount":-1}`, "", handlers.Stuck},
		"kept from it":    {answers, `{}`, "", handlers.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, place := range []string{"registry", "type"} {
				ran := 0
				reg := handlers.New()
				if place == "registry" {
					reg.Use(tc.middleware)
					sender(reg, &ran)
				} else {
					sender(reg, &ran, handlers.WithMiddleware(tc.middleware))
				}
				handlers.Alias(reg, "OldPaid", "Paid")
				for _, eventType := range []string{"Paid", "OldPaid"} {
					got, err := rehearse(t, reg, message(eventType, tc.payload))
					if handlers.OutcomeOf(err) != tc.outcome || (got != nil) != (tc.outcome == handlers.Done) {
						t.Fatalf("%s: %v, %v", place, got, err)
					}
					if got != nil && (string(got.Body) != tc.body || got.URL != eventType) {
						t.Errorf("%s: %+v", place, *got)
					}
				}
				if name == "kept from it" {
					if _, err := rehearse(t, reg, message("Paid", tc.payload)); !errors.Is(err, handlers.ErrNoRequest) {
						t.Errorf("%v", err)
					}
				}
				if ran > 0 {
					t.Errorf("%s: the handler ran", place)
				}
			}
		})
	}
}

func TestRehearseWithoutRequest(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	handlers.On(reg, "Paid", done[orderPaid])
	if reg.Seal()["Paid"].SaysRequest() {
		t.Error("it says a request")
	}
	if _, err := rehearse(t, reg, message("Paid", "{}")); !errors.Is(err, handlers.ErrNoRequest) {
		t.Errorf("%v", err)
	}
}

func TestListOfSenders(t *testing.T) {
	t.Parallel()
	reg := handlers.New()
	sender(reg, new(int), handlers.WithOwnTransaction())
	want := []handlers.Description{{Type: "Paid", Data: "handlers_test.orderPaid", Versions: 1, OwnTransaction: true, Request: true}}
	if got := reg.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestMistakesOfSenders(t *testing.T) {
	t.Parallel()
	request := func(context.Context, handlers.Event[string]) (handlers.Request, error) {
		return handlers.Request{}, nil
	}
	for want, register := range map[string]func(){
		"it takes string, but the handler takes handlers_test.orderPaid": func() {
			handlers.On(handlers.New(), "A", done[orderPaid], handlers.WithRequest(request))
		},
		"the function is nil":               func() { handlers.On(handlers.New(), "A", done[string], handlers.WithRequest[string](nil)) },
		"WithRequest is for one event type": func() { handlers.New(handlers.WithRequest(request)) },
		"WithOwnTransaction does not fit":   func() { mustSQL("select 1", handlers.WithOwnTransaction()) },
	} {
		wantText(t, panics(register), want)
	}
}

// mustSQL panics where SQLWith has an error.
func mustSQL(statement string, opts ...handlers.Option) *handlers.Registry {
	reg := handlers.New()
	if err := handlers.SQLWith(reg, "A", []string{statement}, opts...); err != nil {
		panic(err)
	}
	return reg
}
