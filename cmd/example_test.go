package cmd_test

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
)

// A program with every command of inboxd and a handler of its own.
func ExampleMain() {
	type OrderPaid struct {
		Amount int64 `json:"amount"`
	}
	reg := handlers.New()
	handlers.On(reg, "OrderPaid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[OrderPaid]) error {
		_, err := tx.Exec(ctx, "update balances set amount = amount - $1 where account_id = $2", e.Data.Amount, e.AggregateID)
		return err
	})
	cmd.Main(reg)
}
