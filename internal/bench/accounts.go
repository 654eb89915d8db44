package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
)

// The accounts and their UPDATE. The events of an account are numbered 1, 2, 3 …
// by whoever makes them. last is the number of the newest event that had its
// effect, and misses counts events that did not follow the one before: one
// number out of order, left out or run again is a miss.
const (
	accountsTable = `create table {accounts} (
		account_id text primary key, amount bigint not null default 0,
		last bigint not null default 0, misses bigint not null default 0)`
	openAccounts = `insert into {accounts} (account_id) select 'account-' || a from generate_series(0, $1::int - 1) a`

	// By the primary key.
	debitSQL = `update {accounts} set amount = amount - 1, misses = misses + (last + 1 <> {n})::integer, last = {n} where account_id = {account}`
	// debitAllSQL is debitSQL for consecutive events: $2 of them, $3 to $4, among
	// which $5 did not follow.
	debitAllSQL = `update {accounts} set amount = amount - $2, misses = misses + (last + 1 <> $3)::integer + $5, last = $4 where account_id = $1`
)

// accounts is a table of accounts and what is known of it.
type accounts struct {
	table string
	done  int64 // events that were to have their effect

	misses, torn, off int64 // what the last audit found
}

func (a *accounts) sql(text string) string { return strings.ReplaceAll(text, "{accounts}", a.table) }

// debit is the handler's statement with the given parameters.
func (a *accounts) debit(account, n string) string {
	return strings.NewReplacer("{accounts}", a.table, "{account}", account, "{n}", n).Replace(debitSQL)
}

// audit looks for events lost, doubled or out of order, after so many more were
// to have their effect, and answers how many it found since the last audit.
func (a *accounts) audit(ctx context.Context, db inbox.DB, more int64) (violations int64, err error) {
	a.done += more
	var misses, torn, effects int64
	err = db.QueryRow(ctx, a.sql(`select coalesce(sum(misses), 0)::bigint, coalesce(sum(abs(amount + last)), 0)::bigint,
		coalesce(-sum(amount), 0)::bigint from {accounts}`)).Scan(&misses, &torn, &effects)
	if err != nil {
		return 0, fmt.Errorf("audit the accounts: %w", err)
	}
	off := max(a.done-effects, effects-a.done)
	violations = misses - a.misses + max(0, torn-a.torn) + max(0, off-a.off)
	a.misses, a.torn, a.off = misses, torn, off
	return violations, nil
}

// The forms of handlers, which are event types as well.
const (
	formOn      = "On"
	formSQL     = "sql"
	formOnQueue = "OnQueue"
	formOnBatch = "OnBatch"
)

var forms = []string{formOn, formSQL, formOnQueue, formOnBatch}

// registry has a handler in each form.
func (a *accounts) registry() (*handlers.Registry, error) {
	reg := handlers.New()
	debit, debitAll := a.debit("$1", "$2"), a.sql(debitAllSQL)
	handlers.On(reg, formOn, func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		n, err := number(e.Data)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, debit, e.AggregateID, n)
		return err
	})
	handlers.OnQueue(reg, formOnQueue, func(_ context.Context, b *pgx.Batch, e handlers.Event[[]byte]) error {
		n, err := number(e.Data)
		if err != nil {
			return err
		}
		b.Queue(debit, e.AggregateID, n)
		return nil
	})
	handlers.OnBatch(reg, formOnBatch, func(ctx context.Context, tx pgx.Tx, events []handlers.Event[[]byte]) error {
		first, last, misses, err := consecutive(events)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, debitAll, events[0].AggregateID, len(events), first, last, misses)
		return err
	})
	return reg, handlers.SQL(reg, formSQL, a.debit("@aggregate_id", "@payload::bigint"))
}

// consecutive is what debitAllSQL wants to know of events.
func consecutive(events []handlers.Event[[]byte]) (first, last int64, misses int, err error) {
	for i := range events {
		n, err := number(events[i].Data)
		if err != nil {
			return 0, 0, 0, err
		}
		if i == 0 {
			first = n
		} else if n != last+1 {
			misses++
		}
		last = n
	}
	return first, last, misses, nil
}

// payload is the number of an event in 64 bytes: JSON, and a number for SQL too.
func payload(n int64) []byte { return fmt.Appendf(nil, "%-64d", n) }

func number(payload []byte) (int64, error) {
	return strconv.ParseInt(strings.TrimRight(string(payload), " "), 10, 64)
}
