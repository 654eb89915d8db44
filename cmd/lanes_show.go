package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

func newLanesShowCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show AGGREGATE",
		Short: "Show one lane: its head, what waits behind it, what happened to it",
		Args:  exactArgs("AGGREGATE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.showLane(cmd.Context(), ops, args[0]) })
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) showLane(ctx context.Context, ops *admin.Admin, aggregate string) error {
	d, err := ops.Lane(ctx, aggregate)
	if err != nil {
		return err
	}
	if a.output != formatTable {
		return a.showJSON(d)
	}
	var head *admin.EventDetail
	if d.Head != nil {
		head, err = ops.Event(ctx, d.Head.EventID)
		if err != nil && !errors.Is(err, admin.ErrNotFound) {
			return err
		}
	}
	return a.show(d, laneFields(d, head), func(b *bytes.Buffer) { a.writeLaneParts(b, d) })
}

// laneIndent is where the values of a lane's fields begin.
const laneIndent = len("fingerprint") + columnGap

func laneFields(d *admin.LaneDetail, head *admin.EventDetail) []field {
	fields := []field{{"aggregate", d.AggregateID}, {"state", wrapped(d.Sentence(), laneIndent)}}
	if d.Head != nil {
		fields = append(fields, field{"head", wrapped(fmt.Sprintf("%s %s at position %d, received %s",
			d.Head.EventType, d.Head.EventID, d.Head.Position, cellText(d.Head.ReceivedAt)), laneIndent)})
	}
	if d.NextAttemptAt != nil {
		fields = append(fields, field{"next try", d.NextAttemptAt})
	}
	if d.Error != nil {
		fields = append(fields, field{"error", wrapped(d.Error.Message, laneIndent)},
			field{"error at", d.Error.At}, field{"fingerprint", d.Error.Fingerprint})
	}
	if head != nil {
		fields = append(fields, field{"payload", payloadText(head, 20)})
	}
	return fields
}

func (a *app) writeLaneParts(b *bytes.Buffer, d *admin.LaneDetail) {
	colour := a.colourful(a.stdout)
	if len(d.Events) > 0 {
		title := "Events that wait"
		if more := d.Pending - int64(len(d.Events)); more > 0 {
			title += fmt.Sprintf(", the first %d of %s", len(d.Events), thousands(d.Pending))
		}
		section(b, title)
		b.Write(tableOf(laneEventColumns, d.Events, colour))
	}
	if len(d.History) > 0 {
		section(b, "History")
		b.Write(tableOf(historyColumns, d.History, colour))
	}
	if len(d.Audit) > 0 {
		section(b, "Changes by operators")
		b.Write(tableOf(auditColumns, d.Audit, colour))
	}
}

var laneEventColumns = []column[admin.Event]{
	{head: "position", cell: func(e admin.Event) any { return e.Position }},
	{head: "event", cell: func(e admin.Event) any { return e.EventID }},
	{head: "type", cell: func(e admin.Event) any { return e.EventType }, flex: true},
	{head: "received", cell: func(e admin.Event) any { return e.ReceivedAt }},
	{head: "tries", cell: func(e admin.Event) any { return e.Attempts }},
}

var historyColumns = []column[admin.HistoryEntry]{
	{head: "at", cell: func(h admin.HistoryEntry) any { return h.At }},
	{head: "what", cell: func(h admin.HistoryEntry) any { return h.Outcome }},
	{head: "positions", cell: historyPositions},
	{head: "try", cell: func(h admin.HistoryEntry) any { return h.Attempt }},
	{head: "error", cell: historyError, flex: true},
}

func historyPositions(h admin.HistoryEntry) any {
	if h.FirstPosition == h.LastPosition {
		return fmt.Sprint(h.LastPosition)
	}
	return fmt.Sprintf("%d to %d", h.FirstPosition, h.LastPosition)
}

func historyError(h admin.HistoryEntry) any {
	if h.Message == nil {
		return nil
	}
	return errorLine(*h.Message)
}

var auditColumns = []column[admin.AuditEntry]{
	{head: "at", cell: func(e admin.AuditEntry) any { return e.At }},
	{head: "who", cell: func(e admin.AuditEntry) any { return e.Actor }, flex: true},
	{head: "what", cell: func(e admin.AuditEntry) any { return e.Action }},
	{head: "event", cell: func(e admin.AuditEntry) any { return e.EventID }},
	{head: "why", cell: func(e admin.AuditEntry) any { return e.Reason }, flex: true},
}
