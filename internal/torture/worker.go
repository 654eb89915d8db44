//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
)

// Variables of the worker's role: which handlers it has, and where it counts
// the crashes of each event.
const (
	handlersVariable = "TORTURE_HANDLERS"
	crashVariable    = "TORTURE_CRASHES"
)

// crashCode is what a process exits with whose handler ends it.
const crashCode = 7

// payload is what every event carries.
type payload struct {
	N       int64  `json:"n"`
	Amount  int64  `json:"amount"`
	MS      int    `json:"ms,omitempty"`
	Broken  bool   `json:"broken,omitempty"`
	Crashes int    `json:"crashes,omitempty"` // so many times; -1: always
	To      string `json:"to,omitempty"`
	Pad     string `json:"pad,omitempty"`

	// What the rules find here if it is not in key and headers.
	EventID   string `json:"eventId,omitempty"`
	OrderID   string `json:"orderId,omitempty"`
	EventType string `json:"eventType,omitempty"`
}

type event = handlers.Event[payload]

// workerMain is a team's own binary.
func workerMain() {
	reg := handlers.New()
	switch os.Getenv(handlersVariable) {
	case "team":
		teamHandlers(reg)
	default:
		mixedHandlers(reg)
	}
	reg.Use(handlers.Recover(), handlers.Timeout(handlerTimeout))
	cmd.Main(reg)
}

// mixedHandlers are some of those that the other processes of shop have from
// their configuration, in Go.
func mixedHandlers(reg *handlers.Registry) {
	handlers.On(reg, "Credit", credit)
	handlers.OnQueue(reg, "Debit", queueEffect)
	handlers.On(reg, "Slow", slow)
}

func teamHandlers(reg *handlers.Registry) {
	handlers.On(reg, "Credit", credit)
	handlers.OnQueue(reg, "Debit", queueEffect)
	handlers.OnBatch(reg, "Batch", batch)
	handlers.On(reg, "Slow", slow)
	handlers.On(reg, "Fragile", fragile)
	handlers.On(reg, "Doomed", doomed)
	handlers.On(reg, "Crash", crash)
	handlers.On(reg, "Forward", forward)
	handlers.On(reg, "Forwarded", credit)
	reg.Ignore("Viewed")
}

const takeEffectSQL = `select take_effect($1, $2, $3, $4::jsonb)`

func effectArgs(e event) []any {
	body, err := json.Marshal(payload{N: e.Data.N, Amount: e.Data.Amount, Broken: e.Data.Broken})
	if err != nil { // it always encodes
		panic(err)
	}
	return []any{e.ID, e.AggregateID, e.Position, string(body)}
}

func credit(ctx context.Context, tx pgx.Tx, e event) error {
	_, err := tx.Exec(ctx, takeEffectSQL, effectArgs(e)...)
	return err
}

func queueEffect(_ context.Context, b *pgx.Batch, e event) error {
	b.Queue(takeEffectSQL, effectArgs(e)...)
	return nil
}

func batch(ctx context.Context, tx pgx.Tx, events []event) error {
	b := &pgx.Batch{}
	for _, e := range events {
		b.Queue(takeEffectSQL, effectArgs(e)...)
	}
	return tx.SendBatch(ctx, b).Close()
}

func slow(ctx context.Context, tx pgx.Tx, e event) error {
	if err := credit(ctx, tx, e); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `select pg_sleep($1)`, float64(e.Data.MS)/1000)
	return err
}

// fragile fails in three ways until it is repaired.
func fragile(ctx context.Context, tx pgx.Tx, e event) error {
	if err := credit(ctx, tx, e); err != nil {
		return err
	}
	var repaired bool
	if err := tx.QueryRow(ctx, `select exists (select from repaired where event_id = $1)`, e.ID).Scan(&repaired); err != nil {
		return err
	}
	switch {
	case repaired || !e.Data.Broken:
		return nil
	case e.Data.N%3 == 0:
		panic("not repaired yet")
	case e.Data.N%3 == 1:
		return handlers.RetryAfter(errors.New("not repaired yet"), 100*time.Millisecond)
	}
	return errors.New("not repaired yet")
}

var errDoomed = errors.New("nothing will ever help")

func doomed(ctx context.Context, tx pgx.Tx, e event) error {
	return errors.Join(credit(ctx, tx, e), handlers.Permanent(errDoomed))
}

// crash ends the process, for an event's first times or always.
func crash(ctx context.Context, tx pgx.Tx, e event) error {
	if err := credit(ctx, tx, e); err != nil {
		return err
	}
	again, err := crashesAgain(e.ID, e.Data.Crashes)
	if again {
		os.Exit(crashCode)
	}
	return err
}

// crashesAgain counts a crash, one byte each, unless the event had as many as it
// should.
func crashesAgain(id string, times int) (bool, error) {
	f, err := os.OpenFile(filepath.Join(os.Getenv(crashVariable), id), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || times >= 0 && info.Size() >= int64(times) {
		return false, err
	}
	_, err = fmt.Fprint(f, ".")
	return err == nil, err
}

// store stages events in a handler's transaction; it needs no connection for it.
var store = inbox.NewStore(nil, "team")

// forward takes effect and adds an event for another aggregate, which gets events
// from many.
func forward(ctx context.Context, tx pgx.Tx, e event) error {
	if err := credit(ctx, tx, e); err != nil {
		return err
	}
	body, err := json.Marshal(payload{N: 0, Amount: e.Data.Amount})
	if err != nil {
		return err
	}
	_, err = store.Add(ctx, tx, inbox.Event{ID: forwardedID(e.ID), AggregateID: e.Data.To, Type: "Forwarded", Payload: body})
	return err
}

// forwardedID is the id of the event that forward adds.
func forwardedID(id string) string { return id + ".forwarded" }

// sinks are the aggregates of forwarded events.
func sinks() []string {
	names := make([]string, 8)
	for i := range names {
		names[i] = fmt.Sprintf("sink-%d", i)
	}
	return names
}
