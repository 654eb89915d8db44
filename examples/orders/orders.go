// Package orders follows orders through their states: placed, paid, shipped,
// delivered, or cancelled before it was shipped.
//
// It shows handlers that depend on order. Each event is a step from one state to
// the next, and a step that does not lead on from where the order stands is refused.
// Because the events of an order run one after the other, in the order in which they
// came, no handler has to wait for another, sort, or lock: it reads the state and
// writes the next. A step that does not fit is Permanent, since it will not fit the
// next time either; the order's later events wait behind it, and every other order
// goes on. A repeated step that changes nothing, a second Paid, is passed over with
// Skip, and stays on record.
package orders

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// Tables are the service's own. The aggregate of every event is an order.
const Tables = `
create table orders (id text primary key, state text not null, customer text not null);
create table steps (order_id text not null references orders, n integer not null, state text not null, primary key (order_id, n))`

// Placed is the payload of the first event of an order. The others have none.
type Placed struct{ Customer string }

// steps are the states that an event leads to, and from which.
var steps = map[string]struct {
	to   string
	from []string
}{
	"Paid":      {"paid", []string{"placed"}},
	"Shipped":   {"shipped", []string{"paid"}},
	"Delivered": {"delivered", []string{"shipped"}},
	"Cancelled": {"cancelled", []string{"placed", "paid"}},
}

// The ways in which a step does not fit.
var (
	ErrWrongState = errors.New("the order is in another state")
	ErrSame       = errors.New("the order is in this state already")
)

// Handlers are those of the service.
func Handlers() *handlers.Registry {
	reg := handlers.New()
	handlers.On(reg, "Placed", place)
	for eventType := range steps {
		handlers.On(reg, eventType, step)
	}
	return reg
}

func place(ctx context.Context, tx pgx.Tx, e handlers.Event[Placed]) error {
	_, err := tx.Exec(ctx, `insert into orders values ($1, 'placed', $2)`, e.AggregateID, e.Data.Customer)
	if err != nil {
		return err
	}
	return note(ctx, tx, e.AggregateID, "placed")
}

func step(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
	s := steps[e.Type]
	var state string
	err := tx.QueryRow(ctx, `select state from orders where id = $1`, e.AggregateID).Scan(&state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return handlers.Permanent(fmt.Errorf("%s: %w: it was not placed", e.Type, ErrWrongState))
	case err != nil:
		return err
	case state == s.to:
		return handlers.Skip(fmt.Errorf("%s: %w", e.Type, ErrSame))
	case !slices.Contains(s.from, state):
		return handlers.Permanent(fmt.Errorf("%s: %w: %s", e.Type, ErrWrongState, state))
	}
	if _, err := tx.Exec(ctx, `update orders set state = $2 where id = $1`, e.AggregateID, s.to); err != nil {
		return err
	}
	return note(ctx, tx, e.AggregateID, s.to)
}

// note writes the order's history. Nobody else writes to this order meanwhile, so
// the next number is free.
func note(ctx context.Context, tx pgx.Tx, order, state string) error {
	_, err := tx.Exec(ctx, `insert into steps
		select $1, coalesce(max(n), 0) + 1, $2 from steps where order_id = $1`, order, state)
	return err
}
