package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
)

var (
	pool    *pgxpool.Pool
	db      *sql.DB
	store   *inbox.Store
	payload []byte
)

// An order is paid and the event that says so is stored, both or neither.
func ExampleStore_Add() {
	markPaid := func(ctx context.Context, order string) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `update orders set paid = true where id = $1`, order); err != nil {
				return err
			}
			outcomes, err := store.Add(ctx, tx, inbox.Event{
				ID: "paid-" + order, AggregateID: order, Type: "OrderPaid", Payload: payload,
			})
			if err == nil && outcomes[0] == inbox.Conflict {
				err = errors.New("another event has the id of this one")
			}
			return err
		})
	}
	_ = markPaid
}

// The same with database/sql. With GORM, within db.Transaction, the transaction is
// tx.Statement.ConnPool.
func ExampleStore_AddSQL() {
	markPaid := func(ctx context.Context, order string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // after the commit it does nothing
		if _, err := tx.ExecContext(ctx, `update orders set paid = true where id = $1`, order); err != nil {
			return err
		}
		if _, err := store.AddSQL(ctx, tx, inbox.Event{
			ID: "paid-" + order, AggregateID: order, Type: "OrderPaid", Payload: payload,
		}); err != nil {
			return err
		}
		return tx.Commit()
	}
	_ = markPaid
}

// A message of any broker is charged once, however often it is delivered.
func ExampleStore_Claim() {
	charge := func(ctx context.Context, messageID, account string, cents int64) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			first, err := store.Claim(ctx, tx, "billing", messageID)
			if err != nil || !first {
				return err
			}
			_, err = tx.Exec(ctx, `update accounts set cents = cents - $1 where id = $2`, cents, account)
			return err
		})
	}
	_ = charge // acknowledge the message after it returned nil
}

// The same as a middleware.
func ExampleOnce() {
	type Message struct {
		ID      string
		Account string
		Cents   int64
	}
	charge := inbox.Once(store, "billing",
		func(m Message) (string, error) { return m.ID, nil },
		func(ctx context.Context, tx pgx.Tx, m Message) error {
			_, err := tx.Exec(ctx, `update accounts set cents = cents - $1 where id = $2`, m.Cents, m.Account)
			return err
		})
	handle := func(ctx context.Context, m Message) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return charge(ctx, tx, m) })
	}
	_ = handle
}

// Claims are kept for two weeks, because the topics are kept for one.
func ExampleStore_ForgetClaims() {
	forget := func(ctx context.Context) error {
		every := time.NewTicker(time.Hour)
		defer every.Stop()
		for {
			if _, err := store.ForgetClaims(ctx, 14*24*time.Hour); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-every.C:
			}
		}
	}
	_ = forget
}

// What happened to an order, in the order in which it took effect.
func ExampleStore_Lane() {
	history := func(ctx context.Context, order string) error {
		for e, err := range store.Lane(ctx, order, 0) {
			if err != nil {
				return err
			}
			fmt.Println(e.Position, e.Type, e.ReceivedAt, e.ProcessedAt)
		}
		return nil
	}
	_ = history
}
