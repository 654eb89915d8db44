package cmd

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

func newEventsCmd(a *app) *cobra.Command {
	return noun("events", "See events and what became of them, and correct their payloads",
		newEventsListCmd(a), newEventsShowCmd(a), newEventsEditCmd(a))
}

func newEventsListCmd(a *app) *cobra.Command {
	var f admin.EventFilter
	var since, until momentFlag
	var processed, unprocessed bool
	cmd := &cobra.Command{
		Use:   "list [AGGREGATE]",
		Short: "List the events of an aggregate, or the newest of all",
		Long: "List the events of one aggregate in order or, without one, those of all aggregates, the newest first.\n" +
			"The latter searches the inbox.",
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return tooMany(cmd, args[1], 1)
			case len(args) == 1 && f.AggregateID != "":
				return wrongUse("the aggregate is given twice: %q and --aggregate %q", args[0], f.AggregateID)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.AggregateID += strings.Join(args, "")
			f.From, f.Until = since.at, until.at
			if processed || unprocessed {
				f.Processed = &processed
			}
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.listEvents(cmd.Context(), ops, f) })
		},
	}
	cmd.Flags().StringVar(&f.AggregateID, "aggregate", "", "events of this `AGGREGATE`, in order")
	cmd.Flags().StringVar(&f.Type, "type", "", "events of this `TYPE`")
	addTimeFlags(cmd, &since, &until, "events received")
	cmd.Flags().BoolVar(&processed, "processed", false, "events that were processed or skipped")
	cmd.Flags().BoolVar(&unprocessed, "unprocessed", false, "events that wait")
	cmd.MarkFlagsMutuallyExclusive("processed", "unprocessed")
	addLimitFlag(cmd, &f.Limit, "events")
	a.addOutputFlag(cmd)
	return cmd
}

// mostCounted is how many events are counted for a table: counting all reads the
// whole inbox.
const mostCounted = maxTableRows + 10_000 + 1

func (a *app) listEvents(ctx context.Context, ops *admin.Admin, f admin.EventFilter) error {
	columns := eventColumns
	if f.AggregateID != "" {
		columns = historyEventColumns
	}
	return bounded[admin.Event]{
		listing: listing[admin.Event]{columns: columns, noun: "events"},
		from: func(limit int) iter.Seq2[admin.Event, error] {
			f.Limit = limit
			return ops.Events(ctx, f)
		},
		count: func() (int, error) {
			f.Limit = mostCounted
			return ops.CountEvents(ctx, f)
		},
		most: mostCounted,
	}.write(a, f.Limit)
}

// Of all aggregates: two ids leave room for little else.
var eventColumns = []column[admin.Event]{
	{head: "event", cell: func(e admin.Event) any { return e.EventID }},
	{head: "aggregate", cell: func(e admin.Event) any { return e.AggregateID }},
	{head: "pos", cell: func(e admin.Event) any { return e.Position }, spare: true},
	{head: "type", cell: func(e admin.Event) any { return e.EventType }, flex: true},
	{head: "age", cell: func(e admin.Event) any { return admin.Age(time.Since(e.ReceivedAt)) }},
	{head: "fate", cell: func(e admin.Event) any { return fate(e) }, flex: true},
}

var historyEventColumns = []column[admin.Event]{
	{head: "position", cell: func(e admin.Event) any { return e.Position }},
	{head: "event", cell: func(e admin.Event) any { return e.EventID }},
	{head: "type", cell: func(e admin.Event) any { return e.EventType }, flex: true},
	{head: "received", cell: func(e admin.Event) any { return e.ReceivedAt }},
	{head: "fate", cell: func(e admin.Event) any { return fate(e) }, flex: true},
	{head: "tries", cell: func(e admin.Event) any { return e.Attempts }},
}

// fate is what became of an event, in a word or two.
func fate(e admin.Event) string {
	word := "waits"
	switch {
	case e.SkippedAt != nil:
		word = "skipped"
	case e.ProcessedAt != nil:
		word = "processed"
	}
	if e.EditedAt != nil {
		word += ", edited"
	}
	return word
}

// markedType is an event's type, and a mark if the event was edited.
func markedType(e admin.Event) any {
	return withMark(e.EventType, e.EditedAt)
}

func withMark(eventType string, editedAt *time.Time) string {
	if editedAt != nil {
		return eventType + ", edited"
	}
	return eventType
}
