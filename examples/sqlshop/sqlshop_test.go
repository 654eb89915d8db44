package sqlshop_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/inboxd/inboxd/examples/sqlshop"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inboxtest"
)

func shop(t *testing.T, kit *inboxtest.Kit) sqlshop.Shop {
	t.Helper()
	db := stdlib.OpenDBFromPool(kit.Pool())
	t.Cleanup(func() { _ = db.Close() })
	return sqlshop.Shop{DB: db, Store: inbox.NewStore(nil, kit.Schema())}
}

func state(kit *inboxtest.Kit, order string) string {
	return inboxtest.Get[string](kit, `select state from orders where id = $1`, order)
}

func TestOrdersAreReservedInTheirOrder(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, inboxtest.Options{Setup: sqlshop.Tables + `; insert into stock values ('tea', 3)`})
	s := shop(t, kit)
	for _, o := range []sqlshop.Order{{"o1", "tea", 2}, {"o2", "tea", 2}, {"o3", "tea", 1}, {"o1", "tea", 2}} {
		if err := s.Place(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	kit.Run(sqlshop.Handlers())
	kit.AssertProcessed("tea", "order-placed:o1", "order-placed:o2", "order-placed:o3")
	if state(kit, "o1") != "reserved" || state(kit, "o2") != "sold out" || state(kit, "o3") != "reserved" {
		t.Errorf("the state is\n%s", kit.State())
	}
}

// There is no event without its order.
func TestNothingIsLeftOfAnOrderThatFails(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, inboxtest.Options{Setup: sqlshop.Tables})
	s := shop(t, kit)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Place(gone, sqlshop.Order{ID: "o1", Article: "tea", Count: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("placed: %v", err)
	}
	if err := s.Place(t.Context(), sqlshop.Order{ID: "o2", Article: "tea", Count: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.Place(t.Context(), sqlshop.Order{ID: "o2", Article: "tea", Count: 5}); !errors.Is(err, sqlshop.ErrChanged) {
		t.Errorf("placed: %v", err)
	}
	kit.Run(sqlshop.Handlers())
	kit.AssertProcessed("tea", "order-placed:o2")
	if got := inboxtest.Get[int](kit, `select count(*) from orders`); got != 1 {
		t.Errorf("%d orders", got)
	}
}

func TestWhateverHappens(t *testing.T) {
	t.Parallel()
	placed := func(o sqlshop.Order) inbox.Event { return inboxtest.Event(o.Article, "OrderPlaced", o) }
	inboxtest.Check(t, inboxtest.Case{
		Options: inboxtest.Options{Setup: sqlshop.Tables + `;
			insert into stock values ('tea', 3), ('cups', 1);
			insert into orders values ('o1', 'tea', 2), ('o2', 'cups', 2), ('o3', 'tea', 2), ('o4', 'tea', 1)`},
		Handlers: func(*inboxtest.Kit) *handlers.Registry { return sqlshop.Handlers() },
		Events: []inbox.Event{
			placed(sqlshop.Order{ID: "o1", Article: "tea", Count: 2}),
			placed(sqlshop.Order{ID: "o2", Article: "cups", Count: 2}),
			placed(sqlshop.Order{ID: "o3", Article: "tea", Count: 2}),
			placed(sqlshop.Order{ID: "o4", Article: "tea", Count: 1}),
		},
	})
}
