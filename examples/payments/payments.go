// Package payments is a service that keeps balances: deposits, payments, refunds
// and payouts through a bank.
//
// It shows what a handler has to think of. Balances are added to in the lane's
// transaction, so each event counts once. A payment above the limit is refused for
// good, with Permanent: the account's lane is stuck until a person has looked at it.
// A payout calls the bank, which no transaction can take back: the call carries an
// idempotency key that is the same for every attempt of the event, and what the bank
// knows of it already it does not do again. A bank that is down pauses payouts, with
// Pause, and uses up no attempts; all other events go on.
//
// The tests check all of it with package inboxtest.
package payments

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// Tables are the service's own. The aggregate of every event is an account.
const Tables = `
create table balances (account text primary key, cents bigint not null check (cents >= 0));
create table payments (payment text primary key, account text not null, cents bigint not null, refunded boolean not null default false);
create table payouts (event text primary key, account text not null, cents bigint not null, receipt text not null)`

// Limit is the largest payment that needs no person, in cents.
const Limit = 1_000_00

// The payloads of events.
type (
	// Deposited is money that came in.
	Deposited struct{ Cents int64 }
	// Paid is money that was spent.
	Paid struct {
		Payment string
		Cents   int64
	}
	// Refunded takes a payment back.
	Refunded struct{ Payment string }
	// PayoutAsked is money that is to leave for a bank account.
	PayoutAsked struct {
		IBAN  string
		Cents int64
	}
)

// Errors of payments.
var (
	ErrLimit     = errors.New("the payment is above the limit")
	ErrOverdrawn = errors.New("the balance does not cover it")
	ErrNoPayment = errors.New("there is no such payment, or it was refunded already")
)

// Bank sends money. The same key sends once, and has the same receipt. It answers
// ErrBankDown if it cannot be reached.
type Bank interface {
	Send(ctx context.Context, key, iban string, cents int64) (receipt string, err error)
}

// ErrBankDown is returned by a Bank that cannot be reached.
var ErrBankDown = errors.New("the bank is down")

// Handlers are those of the service.
func Handlers(bank Bank) *handlers.Registry {
	reg := handlers.New()
	handlers.On(reg, "Deposited", deposit, handlers.WithDoc("adds to the balance"))
	handlers.On(reg, "Paid", pay, handlers.WithDoc("takes from the balance, up to the limit"))
	handlers.On(reg, "Refunded", refund, handlers.WithDoc("takes a payment back, once"))
	handlers.On(reg, "PayoutAsked", payout(bank), handlers.WithDoc("sends money through the bank"))
	return reg
}

func deposit(ctx context.Context, tx pgx.Tx, e handlers.Event[Deposited]) error {
	_, err := tx.Exec(ctx, `insert into balances values ($1, $2)
		on conflict (account) do update set cents = balances.cents + excluded.cents`, e.AggregateID, e.Data.Cents)
	return err
}

func pay(ctx context.Context, tx pgx.Tx, e handlers.Event[Paid]) error {
	if e.Data.Cents > Limit {
		return handlers.Permanent(fmt.Errorf("%w: %d cents", ErrLimit, e.Data.Cents))
	}
	if err := take(ctx, tx, e.AggregateID, e.Data.Cents); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `insert into payments (payment, account, cents) values ($1, $2, $3)`,
		e.Data.Payment, e.AggregateID, e.Data.Cents)
	return err
}

// take takes from a balance. The error is not permanent: nothing else of the
// account runs meanwhile, but a person may correct the balance and retry.
func take(ctx context.Context, tx pgx.Tx, account string, cents int64) error {
	tag, err := tx.Exec(ctx, `update balances set cents = cents - $2 where account = $1 and cents >= $2`, account, cents)
	if err == nil && tag.RowsAffected() == 0 {
		err = fmt.Errorf("%w: %d cents", ErrOverdrawn, cents)
	}
	return err
}

func refund(ctx context.Context, tx pgx.Tx, e handlers.Event[Refunded]) error {
	tag, err := tx.Exec(ctx, `with back as (
			update payments set refunded = true
			where payment = $1 and account = $2 and not refunded
			returning account, cents
		)
		update balances b set cents = b.cents + back.cents from back where b.account = back.account`,
		e.Data.Payment, e.AggregateID)
	if err == nil && tag.RowsAffected() == 0 {
		err = handlers.Permanent(fmt.Errorf("%w: %s", ErrNoPayment, e.Data.Payment))
	}
	return err
}

// payout calls the bank last: what can fail in the database has not failed when it
// does. Should the commit fail after the call, the next attempt sends the same key,
// and the bank answers the receipt that it gave.
func payout(bank Bank) func(context.Context, pgx.Tx, handlers.Event[PayoutAsked]) error {
	return func(ctx context.Context, tx pgx.Tx, e handlers.Event[PayoutAsked]) error {
		if err := take(ctx, tx, e.AggregateID, e.Data.Cents); err != nil {
			return err
		}
		receipt, err := bank.Send(ctx, e.IdempotencyKey("payout"), e.Data.IBAN, e.Data.Cents)
		if errors.Is(err, ErrBankDown) {
			return handlers.Pause(err)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `insert into payouts values ($1, $2, $3, $4)`, e.ID, e.AggregateID, e.Data.Cents, receipt)
		return err
	}
}
