package orders_test

import (
	"slices"
	"testing"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/examples/orders"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inboxtest"
)

// order makes the events of an order.
func order(id string, types ...string) []inbox.Event {
	events := []inbox.Event{inboxtest.Event(id, "Placed", orders.Placed{Customer: "ada"})}
	for _, eventType := range types {
		events = append(events, inboxtest.Event(id, eventType, nil))
	}
	return events
}

func TestOrderIsDelivered(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, inboxtest.Options{Setup: orders.Tables})
	kit.Add(order("o1", "Paid", "Paid", "Shipped", "Delivered")...)
	kit.Run(orders.Handlers())
	kit.AssertProcessed("o1", "e1", "e2", "e4", "e5")
	if got := kit.Skipped("o1"); !slices.Equal(got, []string{"e3"}) {
		t.Errorf("skipped: %v", got)
	}
	if got := inboxtest.Get[string](kit, `select string_agg(state, ' ' order by n) from steps`); got != "placed paid shipped delivered" {
		t.Errorf("the order was %s", got)
	}
}

// A person sees why an order is stuck, passes over the step, and it goes on.
func TestWrongStepIsSkippedByAPerson(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, inboxtest.Options{Setup: orders.Tables})
	kit.Add(slices.Concat(order("o1", "Shipped", "Paid"), order("o2", "Paid"))...)
	kit.Run(orders.Handlers())
	kit.AssertStuck("o1", "e2", "Shipped: the order is in another state: placed")
	kit.AssertProcessed("o2", "e4", "e5")

	_, err := kit.Admin().Apply(t.Context(), admin.Skip, admin.By{Actor: "ada", Reason: "shipped by mistake"},
		admin.Target{AggregateID: "o1", EventID: "e2"})
	if err != nil {
		t.Fatal(err)
	}
	kit.Run(orders.Handlers())
	kit.AssertProcessed("o1", "e1", "e3")
	kit.AssertAllDone()
}

func TestWhateverHappens(t *testing.T) {
	t.Parallel()
	inboxtest.Check(t, inboxtest.Case{
		Options:  inboxtest.Options{Setup: orders.Tables},
		Handlers: func(*inboxtest.Kit) *handlers.Registry { return orders.Handlers() },
		Stuck:    true, // o3
		Events: slices.Concat(
			order("o1", "Paid", "Paid", "Shipped", "Delivered"),
			order("o2", "Paid", "Cancelled"),
			order("o3", "Cancelled", "Shipped"),
		),
	})
}
