// Command team is a program of a team's own: inboxd with a handler in Go.
package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
)

// OrderPaid is the payload of an event.
type OrderPaid struct {
	Amount int64 `json:"amount"`
}

const debit = `insert into debits (account, amount) values ($1, $2)`

func main() {
	reg := handlers.New()
	handlers.On(reg, "OrderPaid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[OrderPaid]) error {
		_, err := tx.Exec(ctx, debit, e.AggregateID, e.Data.Amount)
		return err
	})
	cmd.Main(reg)
}
