package cmd

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox"
)

func newEventsCmd(a *app) *cobra.Command {
	return noun("events", "See events and what became of them", newEventsListCmd(a), newEventsShowCmd(a))
}

func newEventsListCmd(a *app) *cobra.Command {
	var f admin.EventFilter
	var since, until momentFlag
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
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.listEvents(cmd.Context(), ops, f) })
		},
	}
	cmd.Flags().StringVar(&f.AggregateID, "aggregate", "", "events of this `AGGREGATE`, in order")
	cmd.Flags().StringVar(&f.Type, "type", "", "events of this `TYPE`")
	cmd.Flags().Var(&since, "since", "events received at or after this `TIME`, or so long ago (90m)")
	cmd.Flags().Var(&until, "until", "events received before this `TIME`, or longer ago (90m)")
	addLimitFlag(cmd, &f.Limit, "events")
	a.addOutputFlag(cmd)
	return cmd
}

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
		count: func() (int, error) { return ops.CountEvents(ctx, f) },
	}.write(a, f.Limit)
}

// Of all aggregates: two ids leave room for little else.
var eventColumns = []column[admin.Event]{
	{head: "event", cell: func(e admin.Event) any { return e.EventID }},
	{head: "aggregate", cell: func(e admin.Event) any { return e.AggregateID }},
	{head: "pos", cell: func(e admin.Event) any { return e.Position }},
	{head: "type", cell: func(e admin.Event) any { return e.EventType }, flex: true},
	{head: "age", cell: func(e admin.Event) any { return admin.Age(time.Since(e.ReceivedAt)) }},
	{head: "fate", cell: func(e admin.Event) any { return fate(e) }},
}

var historyEventColumns = []column[admin.Event]{
	{head: "position", cell: func(e admin.Event) any { return e.Position }},
	{head: "event", cell: func(e admin.Event) any { return e.EventID }},
	{head: "type", cell: func(e admin.Event) any { return e.EventType }, flex: true},
	{head: "received", cell: func(e admin.Event) any { return e.ReceivedAt }},
	{head: "fate", cell: func(e admin.Event) any { return fate(e) }},
	{head: "tries", cell: func(e admin.Event) any { return e.Attempts }},
}

// fate is what became of an event, in a word.
func fate(e admin.Event) string {
	switch {
	case e.SkippedAt != nil:
		return "skipped"
	case e.ProcessedAt != nil:
		return "processed"
	}
	return "waits"
}

func newEventsShowCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one event with its payload",
		Args:  exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.operate(cmd.Context(), func(ops *admin.Admin) error {
				d, err := ops.Event(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.show(d, eventFields(d), nil)
			})
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

func eventFields(d *admin.EventDetail) []field {
	became := "waits"
	switch {
	case d.SkippedAt != nil:
		became = "skipped at " + cellText(*d.SkippedAt)
	case d.ProcessedAt != nil:
		became = "processed at " + cellText(*d.ProcessedAt)
	}
	if d.Attempts > 0 {
		became += " after " + count(int64(d.Attempts), "attempt")
	}
	return []field{
		{"event", d.EventID}, {"aggregate", d.AggregateID}, {"type", d.EventType}, {"position", d.Position},
		{"received", d.ReceivedAt}, {"occurred", d.OccurredAt}, {"fate", became},
		{"source", sourceText(d.Source)}, {"headers", headersText(d.Headers)}, {"payload", payloadText(d, 0)},
	}
}

// sourceText is a place in Kafka: topic, partition, offset.
func sourceText(s *admin.Source) any {
	if s == nil {
		return nil
	}
	return fmt.Sprintf("%s/%d/%d", s.Topic, s.Partition, s.Offset)
}

func headersText(headers admin.Headers) any {
	object := inbox.HeaderObject(headers)
	if len(object) == 0 {
		return nil
	}
	lines := make([]string, 0, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		lines = append(lines, name+": "+object[name])
	}
	return strings.Join(lines, "\n")
}

// payloadText is a payload for people: JSON indented, its numbers as they came.
// It has most lines, if most is not 0.
func payloadText(d *admin.EventDetail, most int) string {
	text := bytesText(d.Payload)
	var b bytes.Buffer
	if d.PayloadIsJSON() && json.Indent(&b, d.Payload, "", "  ") == nil {
		text = b.String()
	}
	if lines := strings.SplitAfter(text, "\n"); most > 0 && len(lines) > most {
		text = strings.Join(lines[:most], "") + "… see: inboxd events show " + d.EventID
	}
	return text
}

// bytesText is text as it is, and other bytes in hexadecimal.
func bytesText(b []byte) string {
	switch {
	case len(b) == 0:
		return "(empty)"
	case utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r' }):
		return string(b)
	case len(b) <= 4096:
		return strings.TrimRight(hex.Dump(b), "\n")
	}
	return strings.TrimRight(hex.Dump(b[:4096]), "\n") +
		fmt.Sprintf("\n… %s more bytes; -o json has all, in base64 of %s", thousands(int64(len(b)-4096)), thousands(int64(base64.StdEncoding.EncodedLen(len(b)))))
}
