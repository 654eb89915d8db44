// Command ownbinary is a team's own binary: every command of inboxd, with the team's
// handlers and a middleware of its own.
//
//	$ go run ./examples/ownbinary migrate up
//	$ go run ./examples/ownbinary ingest events.jsonl
//	$ go run ./examples/ownbinary serve
//	$ go run ./examples/ownbinary lanes list --state stuck
//
// It shows that main is one call: cmd.Main runs the command line with the registry.
// The database and the topics come from inboxd.yaml and the environment, as they do
// for the inboxd binary. The middleware knows which tenant an event belongs to, by a
// header, and sets it for row-level security in the event's own transaction; what it
// has set ends with that.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
)

func main() { cmd.Main(registry()) }

// tables are the service's own. Row-level security holds for roles that are neither
// superusers nor the table's owner; for this example the column says it all.
const tables = `create table deposits (tenant text not null default current_setting('shop.tenant'), account text not null, cents bigint not null)`

// Deposited is the payload of an event.
type Deposited struct {
	Cents int64 `json:"cents"`
}

func registry() *handlers.Registry {
	reg := handlers.New()
	reg.Use(handlers.Recover(), handlers.Timeout(10*time.Second), tenant)
	handlers.On(reg, "Deposited", func(ctx context.Context, tx pgx.Tx, e handlers.Event[Deposited]) error {
		_, err := tx.Exec(ctx, `insert into deposits (account, cents) values ($1, $2)`, e.AggregateID, e.Data.Cents)
		return err
	})
	reg.Ignore("Viewed")
	return reg
}

// setTenant holds until the end of the transaction, or until it is set again: other
// events may share it.
const setTenant = `select set_config('shop.tenant', $1, true)`

// errNoTenant makes a lane stuck: no later attempt will have a tenant either.
var errNoTenant = handlers.Permanent(errors.New("the event has no header tenant"))

// tenant is a middleware: a function that makes a handler of the next one. It works
// for all forms, those that get a transaction and those that only queue statements.
func tenant(next handlers.Handler) handlers.Handler {
	return func(ctx context.Context, call *handlers.Call) error {
		name := call.Events[0].Header("tenant") // of one aggregate, so of one tenant
		if name == "" {
			return errNoTenant
		}
		if call.Batch != nil {
			call.Batch.Queue(setTenant, name)
			return next(ctx, call)
		}
		if _, err := call.Tx.Exec(ctx, setTenant, name); err != nil {
			return err
		}
		return next(ctx, call)
	}
}
