package dev

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// Event types of the sample shop.
const (
	OrderPlaced       = "OrderPlaced"
	OrderItemAdded    = "OrderItemAdded"
	OrderShipped      = "OrderShipped"
	PaymentAuthorized = "PaymentAuthorized"
	PaymentCaptured   = "PaymentCaptured"
	PaymentRefunded   = "PaymentRefunded"
)

// shopTables are the shop's own tables. Each handler also notes its effect in
// effects, whose n tells the order: that is what violations are counted by.
const shopTables = `
create schema if not exists shop;
create table if not exists shop.orders (
	order_id text primary key,
	customer text not null,
	items integer not null default 0,
	total_cents bigint not null default 0,
	shipped text
);
create table if not exists shop.balances (
	payment_id text primary key,
	customer text not null,
	authorized_cents bigint not null,
	amount_cents bigint not null default 0,
	constraint balance_not_negative check (amount_cents >= 0)
);
create table if not exists shop.effects (
	n bigint generated always as identity primary key,
	aggregate_id text not null,
	event_id text not null,
	version integer not null
)`

const (
	placeOrder = `insert into shop.orders (order_id, customer) values ($1, $2)`
	shipOrder  = `update shop.orders set shipped = $2 where order_id = $1`
	authorize  = `insert into shop.balances (payment_id, customer, authorized_cents) values ($1, $2, $3)`
	balance    = `update shop.balances set amount_cents = amount_cents + $2 where payment_id = $1`
	note       = `insert into shop.effects (aggregate_id, event_id, version) values ($1, $2, $3)`

	// These two are an sql handler, as a configuration has it.
	addItem = `update shop.orders
		set items = items + (@payload::jsonb->>'quantity')::integer,
			total_cents = total_cents + (@payload::jsonb->>'quantity')::bigint * (@payload::jsonb->>'amountCents')::bigint
		where order_id = @aggregate_id`
	noteItem = `insert into shop.effects (aggregate_id, event_id, version)
		values (@aggregate_id, @event_id, (@payload::jsonb->>'version')::integer)`
)

// errCardNetwork is what the handler of a flaky event fails with.
var errCardNetwork = errors.New("the card network does not answer")

// Handlers registers the handlers of the sample shop, one of each form.
func Handlers() (*handlers.Registry, error) {
	reg := handlers.New()
	handlers.On(reg, OrderPlaced, func(ctx context.Context, tx pgx.Tx, e handlers.Event[Event]) error {
		if _, err := tx.Exec(ctx, placeOrder, e.Data.OrderID, e.Data.Customer); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, note, e.AggregateID, e.ID, e.Data.Version)
		return err
	})
	if err := handlers.SQL(reg, OrderItemAdded, addItem, noteItem); err != nil {
		return nil, err
	}
	handlers.OnQueue(reg, OrderShipped, func(_ context.Context, b *pgx.Batch, e handlers.Event[Event]) error {
		b.Queue(shipOrder, e.Data.OrderID, e.Data.Carrier)
		b.Queue(note, e.AggregateID, e.ID, e.Data.Version)
		return nil
	})
	handlers.OnQueue(reg, PaymentAuthorized, func(_ context.Context, b *pgx.Batch, e handlers.Event[Event]) error {
		b.Queue(authorize, e.Data.PaymentID, e.Data.Customer, e.Data.AmountCents)
		b.Queue(note, e.AggregateID, e.ID, e.Data.Version)
		return nil
	})
	handlers.On(reg, PaymentCaptured, capture)
	handlers.OnBatch(reg, PaymentRefunded, refund)
	return reg, nil
}

func capture(ctx context.Context, tx pgx.Tx, e handlers.Event[Event]) error {
	if e.Attempt <= e.Data.FailTimes {
		return fmt.Errorf("capture %d cents: %w", e.Data.AmountCents, errCardNetwork)
	}
	if _, err := tx.Exec(ctx, balance, e.Data.PaymentID, e.Data.AmountCents); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, note, e.AggregateID, e.ID, e.Data.Version)
	return err
}

func refund(ctx context.Context, tx pgx.Tx, events []handlers.Event[Event]) error {
	for _, e := range events {
		if _, err := tx.Exec(ctx, balance, e.Data.PaymentID, -e.Data.AmountCents); err != nil {
			return fmt.Errorf("refund %d cents: %w", e.Data.AmountCents, err)
		}
		if _, err := tx.Exec(ctx, note, e.AggregateID, e.ID, e.Data.Version); err != nil {
			return err
		}
	}
	return nil
}
