package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inboxtest"
)

const events = `{"event_id":"a","aggregate_id":"alice","event_type":"Deposited","payload":{"cents":5},"headers":{"tenant":"north"}}
{"event_id":"b","aggregate_id":"bob","event_type":"Deposited","payload":{"cents":7},"headers":{"tenant":"south"}}
{"event_id":"c","aggregate_id":"carol","event_type":"Deposited","payload":{"cents":9}}
{"event_id":"d","aggregate_id":"alice","event_type":"Viewed","payload":{}}
`

// The binary's command line, as a person types it.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, inboxtest.Options{Setup: tables})
	run := func(stdin string, args ...string) string {
		t.Helper()
		var out, said bytes.Buffer
		environment := []string{"DATABASE_URL=" + kit.URL()}
		if code := cmd.Run(t.Context(), registry(), args, strings.NewReader(stdin), &out, &said, environment); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", args, code, said.String())
		}
		return out.String()
	}
	run("", "migrate", "up")
	run(events, "ingest", "-")
	run("", "serve", "--drain")
	if got := run("", "lanes", "list", "--state", "stuck", "-o", "jsonl"); !strings.Contains(got, `"aggregate_id":"carol"`) || strings.Count(got, "\n") != 1 {
		t.Errorf("stuck: %s", got)
	}
	if got := inboxtest.Get[string](kit, `select string_agg(tenant || ' ' || account, ', ' order by account) from deposits`); got != "north alice, south bob" {
		t.Errorf("deposits: %s", got)
	}
}

func TestWhateverHappens(t *testing.T) {
	t.Parallel()
	deposit := func(aggregate, tenant string) inbox.Event {
		return inboxtest.Event(aggregate, "Deposited", Deposited{Cents: 5}, inboxtest.Header("tenant", tenant))
	}
	inboxtest.Check(t, inboxtest.Case{
		Options:  inboxtest.Options{Setup: tables},
		Handlers: func(*inboxtest.Kit) *handlers.Registry { return registry() },
		Events:   []inbox.Event{deposit("alice", "north"), deposit("bob", "south"), deposit("alice", "north")},
	})
}
