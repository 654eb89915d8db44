package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// OrderPaid is an event of the examples, as it is today.
type OrderPaid struct {
	Cents    int64
	Currency string
}

// Validate is what the examples take for a valid event.
func (o OrderPaid) Validate() error {
	if o.Cents < 0 {
		return errors.New("a negative amount")
	}
	return nil
}

func ExampleOn() {
	reg := handlers.New()
	handlers.On(reg, "OrderPaid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[OrderPaid]) error {
		var left int64
		err := tx.QueryRow(ctx, `update balances set cents = cents - $1 where account_id = $2 returning cents`,
			e.Data.Cents, e.AggregateID).Scan(&left)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return handlers.Permanent(fmt.Errorf("there is no account %s", e.AggregateID))
		case err != nil:
			return err // undone, and tried again after a backoff
		case left < 0:
			handlers.Logger(ctx).Warn("the account is overdrawn", "cents", left)
		}
		return nil
	}, handlers.WithDoc("takes what was paid off the balance"),
		handlers.WithRetry(handlers.Retry{Attempts: 5}),
		handlers.WithTimeout(2*time.Second))
	fmt.Println(reg.Types())
	// Output: [OrderPaid]
}

func ExampleOnQueue() {
	reg := handlers.New()
	handlers.OnQueue(reg, "OrderPaid", func(_ context.Context, b *pgx.Batch, e handlers.Event[OrderPaid]) error {
		b.Queue(`update balances set cents = cents - $1 where account_id = $2`, e.Data.Cents, e.AggregateID)
		b.Queue(`insert into paid (event_id, cents) values ($1, $2)`, e.ID, e.Data.Cents)
		return nil
	})
	fmt.Println(reg.Types())
	// Output: [OrderPaid]
}

func ExampleOnBatch() {
	reg := handlers.New()
	handlers.OnBatch(reg, "OrderPaid", func(ctx context.Context, tx pgx.Tx, events []handlers.Event[OrderPaid]) error {
		var sum int64
		for _, e := range events {
			sum += e.Data.Cents
		}
		_, err := tx.Exec(ctx, `update balances set cents = cents - $1 where account_id = $2`, sum, events[0].AggregateID)
		return err
	}, handlers.WithMax(100))
	fmt.Println(reg.Types())
	// Output: [OrderPaid]
}

// Where a batch is one statement, a single event can be looked at more closely.
func ExampleSingle() {
	const book = `insert into paid (event_id, cents) select * from unnest($1::text[], $2::bigint[])`
	reg := handlers.New()
	handlers.OnBatch(reg, "OrderPaid", func(ctx context.Context, tx pgx.Tx, events []handlers.Event[OrderPaid]) error {
		ids, cents := make([]string, len(events)), make([]int64, len(events))
		for i, e := range events {
			ids[i], cents[i] = e.ID, e.Data.Cents
		}
		_, err := tx.Exec(ctx, book, ids, cents)
		return err
	}, handlers.Single(func(ctx context.Context, tx pgx.Tx, e handlers.Event[OrderPaid]) error {
		if _, err := tx.Exec(ctx, book, []string{e.ID}, []int64{e.Data.Cents}); err != nil {
			return fmt.Errorf("book %d %s: %w", e.Data.Cents, e.Data.Currency, err)
		}
		return nil
	}))
	fmt.Println(reg.Types())
	// Output: [OrderPaid]
}

func ExampleSQL() {
	reg := handlers.New()
	err := handlers.SQL(reg, "OrderPaid",
		`update balances set cents = cents - (@payload::jsonb->>'Cents')::bigint where account_id = @aggregate_id`,
		`insert into paid (event_id, at) values (@event_id, @occurred_at)`)
	fmt.Println(reg.Types(), err)
	fmt.Println(handlers.SQL(reg, "OrderShipped", `select $1`))
	// Output:
	// [OrderPaid] <nil>
	// statement 1 of the sql handler of OrderShipped: it holds $1; parameters are named, it may use @aggregate_id, @event_id, @event_type, @headers, @occurred_at, @payload, @payload_bytes, @position, @received_at
}

// The event had another name and an amount in euros once; old ones still come.
func ExampleAlias() {
	type PaymentReceived struct{ Euros float64 }
	reg := handlers.New()
	handlers.On(reg, "OrderPaid", func(_ context.Context, _ pgx.Tx, e handlers.Event[OrderPaid]) error {
		fmt.Println(e.Type, e.Data.Cents, e.Data.Currency)
		return nil
	})
	handlers.Alias(reg, "PaymentReceived", "OrderPaid",
		handlers.Upcast(func(e handlers.Event[PaymentReceived]) (OrderPaid, error) {
			return OrderPaid{Cents: int64(e.Data.Euros * 100), Currency: "EUR"}, nil
		}))
	old := message("PaymentReceived", `{"Euros": 1.25}`)
	_ = reg.Seal()[old.Type].Handle(context.Background(), &handlers.Call{Events: []*handlers.Message{old}})
	// Output: PaymentReceived 125 EUR
}

// The event has a field that says its version. Version 1 had no currency.
func ExampleWithVersions() {
	type OrderPaidV1 struct{ Cents int64 }
	reg := handlers.New()
	handlers.On(reg, "OrderPaid", func(_ context.Context, _ pgx.Tx, e handlers.Event[OrderPaid]) error {
		fmt.Println(e.Data.Cents, e.Data.Currency)
		return nil
	}, handlers.WithVersions(handlers.VersionField("version", 1),
		handlers.Upcast(func(e handlers.Event[OrderPaidV1]) (OrderPaid, error) {
			return OrderPaid{Cents: e.Data.Cents, Currency: "EUR"}, nil
		})))
	for _, payload := range []string{`{"Cents": 7}`, `{"version": 2, "Cents": 7, "Currency": "SEK"}`} {
		e := message("OrderPaid", payload)
		_ = reg.Seal()[e.Type].Handle(context.Background(), &handlers.Call{Events: []*handlers.Message{e}})
	}
	// Output:
	// 7 EUR
	// 7 SEK
}

// Outcomes say more than an error.
func Example_outcomes() {
	charge := func(context.Context, string, int64) error { return errors.New("the bank says 429") }
	closed := func(error) bool { return false }
	reg := handlers.New()
	handlers.On(reg, "OrderPaid", func(ctx context.Context, _ pgx.Tx, e handlers.Event[OrderPaid]) error {
		if e.Data.Cents == 0 {
			return handlers.Skip(errors.New("nothing was paid")) // passed over, on record
		}
		if e.Data.Currency != "EUR" {
			return handlers.Permanent(fmt.Errorf("no account in %s", e.Data.Currency)) // stuck at once
		}
		err := charge(ctx, e.IdempotencyKey("charge"), e.Data.Cents)
		if closed(err) {
			return handlers.Pause(err) // waits, no attempt is used up
		}
		return handlers.RetryAfter(err, time.Minute)
	})
	e := message("OrderPaid", `{"Cents": 5, "Currency": "EUR"}`)
	err := reg.Seal()[e.Type].Handle(context.Background(), &handlers.Call{Events: []*handlers.Message{e}})
	fmt.Println(handlers.OutcomeOf(err), errors.Is(err, handlers.ErrRetryAfter), err)
	// Output: retry_after true the bank says 429
}

func ExampleMessage_IdempotencyKey() {
	e := message("OrderPaid", `{}`)
	fmt.Println(e.IdempotencyKey())
	fmt.Println(e.IdempotencyKey("billing", "charge"))
	e.ID = "https://shop.example/orders 17"
	fmt.Println(e.IdempotencyKey())
	// Output:
	// e-1
	// e-1:billing:charge
	// sha256-f7a67688e0fae3b75a53a285c1dd5f39ffa20e5960b4aa9feaf52e5d0114f4d1
}

func ExampleRegistry_List() {
	reg := handlers.New(handlers.WithRetry(handlers.Retry{Attempts: 20}))
	handlers.On(reg, "OrderPaid", done[OrderPaid], handlers.WithDoc("takes what was paid off the balance"))
	handlers.Alias(reg, "PaymentReceived", "OrderPaid")
	reg.Ignore("OrderViewed")
	for _, d := range reg.List() {
		fmt.Println(d.Type, d.Form, d.Aliases, d.Doc)
	}
	// Output:
	// OrderPaid direct [PaymentReceived] takes what was paid off the balance
	// OrderViewed ignored []
}
