package handlers_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// What an event costs in this package, beside decoding it by hand, the Call
// included: allocations, since they are the same on every machine.
func TestCostOfAnEvent(t *testing.T) {
	events := messages("A", `{"Amount": 7, "Currency": "EUR"}`)
	byHand := testing.AllocsPerRun(100, func() {
		data := new(orderPaid)
		if err := json.Unmarshal(events[0].Payload, data); err != nil {
			t.Fatal(err)
		}
	})
	batch := func(context.Context, pgx.Tx, []handlers.Event[orderPaid]) error { return nil }
	for name, tc := range map[string]struct {
		register func(r *handlers.Registry)
		most     float64
	}{
		"On":           {func(r *handlers.Registry) { handlers.On(r, "A", done[orderPaid]) }, 3},
		"On a pointer": {func(r *handlers.Registry) { handlers.On(r, "A", done[*orderPaid]) }, 4},
		"On raw":       {func(r *handlers.Registry) { handlers.On(r, "A", done[[]byte]) }, 3 - byHand},
		"OnBatch":      {func(r *handlers.Registry) { handlers.OnBatch(r, "A", batch) }, 3},
		"with Recover": {func(r *handlers.Registry) { r.Use(handlers.Recover()); handlers.On(r, "A", done[orderPaid]) }, 4},
		"with Validate": {func(r *handlers.Registry) {
			r.Use(handlers.Validate(func(*orderPaid) error { return nil }), handlers.Validate(func(valid) error { return nil }))
			handlers.On(r, "A", done[orderPaid])
		}, 8},
		"with the rest": {func(r *handlers.Registry) {
			r.Use(handlers.Logging(nil), handlers.Metrics(func(context.Context, handlers.Observation) {}),
				handlers.RateLimit(1e9, 1e9), handlers.Concurrency(1))
			handlers.On(r, "A", done[orderPaid])
		}, 6},
	} {
		reg := handlers.New()
		tc.register(reg)
		entry := reg.Seal()["A"]
		got := testing.AllocsPerRun(100, func() {
			if err := entry.Handle(t.Context(), &handlers.Call{Events: events}); err != nil {
				t.Fatal(err)
			}
		})
		if got-byHand > tc.most {
			t.Errorf("%s: %g allocations an event more than the %g by hand, at most %g", name, got-byHand, byHand, tc.most)
		}
		t.Logf("%s: %+g", name, got-byHand)
	}
}
