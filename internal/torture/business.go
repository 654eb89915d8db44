//go:build linux

package main

import (
	"fmt"
	"strings"
)

// businessSQL makes what handlers write to. Nothing in it keeps an effect from
// being there twice or in the wrong place: that is inboxd's to do.
const businessSQL = `
create table balances (
	aggregate_id text primary key,
	amount       bigint not null default 0,
	last_n       bigint not null default 0
) with (fillfactor = 50);

create table effects (
	seq          bigint generated always as identity primary key,
	event_id     text not null,
	aggregate_id text not null,
	position     bigint not null,
	n            bigint not null,
	prev_n       bigint not null,
	amount       bigint not null,
	at           timestamptz not null default clock_timestamp(),
	txid         bigint not null default pg_current_xact_id()::text::bigint,
	worker       text not null default current_setting('application_name')
);
create index effects_event on effects (event_id);
create index effects_at on effects (at);

create table repaired (event_id text primary key);

create table never (amount bigint constraint never_ever check (amount < 0));

-- take_effect is what a handler does: it looks at the balance, writes down what
-- it saw and changes it. Two that run at once see the same.
create function take_effect(id text, aggregate text, pos bigint, body jsonb) returns void
language plpgsql as $$
begin
	insert into effects (event_id, aggregate_id, position, n, prev_n, amount)
	select id, aggregate, pos, (body->>'n')::bigint, b.last_n, (body->>'amount')::bigint
	from balances b where b.aggregate_id = aggregate;
	update balances b set amount = b.amount + (body->>'amount')::bigint, last_n = (body->>'n')::bigint
	where b.aggregate_id = aggregate;
end $$;

-- must_be_repaired fails for a fragile event until it is repaired.
create function must_be_repaired(id text, body jsonb) returns void
language plpgsql as $$
begin
	if body->>'broken' = 'true' and not exists (select from repaired r where r.event_id = id) then
		raise exception 'this event is not repaired yet' using errcode = 'TRT01';
	end if;
end $$;
`

// The statements that handlers share.
const (
	takeEffect = `select take_effect(@event_id, @aggregate_id, @position, @payload::jsonb)`
	noteEffect = `insert into effects (event_id, aggregate_id, position, n, prev_n, amount)
        select @event_id, @aggregate_id, @position, (@payload::jsonb->>'n')::bigint, b.last_n, (@payload::jsonb->>'amount')::bigint
        from balances b where b.aggregate_id = @aggregate_id`
	moveBalance = `update balances set amount = amount + (@payload::jsonb->>'amount')::bigint, last_n = (@payload::jsonb->>'n')::bigint
        where aggregate_id = @aggregate_id`
)

// sqlHandlers are the handlers of shop's configuration.
var sqlHandlers = []struct {
	eventType  string
	statements []string
}{
	{"Credit", []string{takeEffect}},
	{"Debit", []string{noteEffect, moveBalance}},
	{"Slow", []string{noteEffect, `select pg_sleep((@payload::jsonb->>'ms')::float8 / 1000)`, moveBalance}},
	{"Fragile", []string{takeEffect, `select must_be_repaired(@event_id, @payload::jsonb)`}},
	{"Doomed", []string{takeEffect, `insert into never values (1)`}},
	{"Severed", []string{takeEffect, `select pg_terminate_backend(pg_backend_pid())`}},
}

// inGo are those that the mixed process has in Go.
var inGo = map[string]bool{"Credit": true, "Debit": true, "Slow": true}

func allOf(string) bool             { return true }
func notInGo(eventType string) bool { return !inGo[eventType] }

// yaml is the configuration of a family, with those handlers that want has.
func (w *world) yaml(name string, want func(eventType string) bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `database:
  schema: %s
  max_connections: %d
kafka:
  brokers: [%s]
  group: torture-%s
  topics: [%s]
  format: json
lanes:
  workers: %d
  handler_timeout: %s
  lease: %s
  drain: %s
  retry: {initial: 50ms, max: 500ms, attempts: %d}
handlers:
`, name, maxConnections, w.addr, name, name, laneWorkers, handlerTimeout, lease, drainTime, attempts)
	if name == "team" {
		return b.String()
	}
	b.WriteString("  Viewed: ignore\n")
	for _, h := range sqlHandlers {
		if !want(h.eventType) {
			continue
		}
		fmt.Fprintf(&b, "  %s:\n    sql:\n", h.eventType)
		for _, s := range h.statements {
			fmt.Fprintf(&b, "      - >-\n        %s\n", s)
		}
	}
	return b.String()
}
