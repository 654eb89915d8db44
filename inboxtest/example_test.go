package inboxtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inboxtest"
)

const tables = `create table balances (account text primary key, cents bigint not null)`

var errOverdrawn = errors.New("overdrawn")

// register is what the service under test does when it starts.
func register() *handlers.Registry {
	reg := handlers.New()
	handlers.On(reg, "Moved", func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
		var cents int64
		err := tx.QueryRow(ctx, `insert into balances values ($1, $2)
			on conflict (account) do update set cents = balances.cents + excluded.cents
			returning cents`, e.AggregateID, e.Data.Cents).Scan(&cents)
		if err == nil && cents < 0 {
			err = handlers.Permanent(errOverdrawn)
		}
		return err
	})
	return reg
}

// A test of one story: what is processed, what is stuck and why.
func ExampleNew() {
	t := &testing.T{} // that of the test

	kit := inboxtest.New(t, inboxtest.Options{Setup: tables})
	kit.Add(
		inboxtest.Event("alice", "Moved", moved{Cents: 700}),
		inboxtest.Event("alice", "Moved", moved{Cents: -900}),
		inboxtest.Event("bob", "Moved", moved{Cents: 30}),
	)
	kit.Run(register())
	kit.AssertProcessed("alice", "e1")
	kit.AssertStuck("alice", "e2", "overdrawn")
	kit.AssertProcessed("bob", "e3")
	if cents := inboxtest.Get[int64](kit, `select cents from balances where account = 'alice'`); cents != 700 {
		t.Errorf("alice has %d cents", cents)
	}
}

// A test of all that can go wrong.
func ExampleCheck() {
	t := &testing.T{} // that of the test

	inboxtest.Check(t, inboxtest.Case{
		Options:  inboxtest.Options{Setup: tables},
		Handlers: func(*inboxtest.Kit) *handlers.Registry { return register() },
		Events: []inbox.Event{
			inboxtest.Event("alice", "Moved", moved{Cents: 700}),
			inboxtest.Event("bob", "Moved", moved{Cents: 30}),
			inboxtest.Event("alice", "Moved", moved{Cents: -200}),
		},
	})
}

// The examples hold.
func TestExamples(t *testing.T) {
	t.Parallel()
	t.Run("New", func(t *testing.T) {
		t.Parallel()
		kit := inboxtest.New(t, inboxtest.Options{Setup: tables})
		kit.Add(
			inboxtest.Event("alice", "Moved", moved{Cents: 700}),
			inboxtest.Event("alice", "Moved", moved{Cents: -900}),
		)
		kit.Run(register())
		kit.AssertProcessed("alice", "e1")
		kit.AssertStuck("alice", "e2", "overdrawn")
	})
	t.Run("Check", func(t *testing.T) {
		t.Parallel()
		inboxtest.Check(t, inboxtest.Case{
			Options:  inboxtest.Options{Setup: tables},
			Handlers: func(*inboxtest.Kit) *handlers.Registry { return register() },
			Stuck:    true,
			Rounds:   2,
			Events: []inbox.Event{
				inboxtest.Event("alice", "Moved", moved{Cents: 700}),
				inboxtest.Event("bob", "Moved", moved{Cents: 30}),
				inboxtest.Event("alice", "Moved", moved{Cents: -900}),
			},
		})
	})
}
