package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/internal/dev"
)

func newLanesShowCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show AGGREGATE",
		Short: "Show one lane: its head, what waits behind it, what happened to it",
		Args:  exactArgs("AGGREGATE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.showLane(cmd.Context(), args[0])
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) showLane(ctx context.Context, aggregate string) error {
	db, err := a.openDatabase(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	ops := admin.New(db.pool, db.schema)
	d, err := ops.Lane(ctx, aggregate)
	if err != nil {
		return operationFailure(err)
	}
	if a.output != formatTable {
		return a.showJSON(d)
	}
	var head *admin.EventDetail
	if d.Head != nil {
		d.AttemptLimit = a.attemptLimit(db, d.Head.EventType)
		head, err = ops.Event(ctx, d.Head.EventID)
		if err != nil && !errors.Is(err, admin.ErrNotFound) {
			return operationFailure(err)
		}
	}
	return a.show(d, laneFields(d, head), func(b *bytes.Buffer) { a.writeLaneParts(b, d) })
}

// attemptLimit is how many attempts a head of the type has before its lane is
// stuck: by the type's own policy, in the configuration or in Go, else by that of
// the lanes.
func (a *app) attemptLimit(db *database, eventType string) int {
	if db.dev != nil && db.dev.Database != dev.Own {
		return dev.Retry.Attempts
	}
	limit := db.config.Lanes.Retry.Attempts
	for _, h := range a.reg.List() {
		if r := h.Retry; r != nil && (h.Type == eventType || slices.Contains(h.Aliases, eventType)) {
			limit = limitOf(r.Never, r.Attempts, limit)
		}
	}
	if r := db.config.Handlers[eventType].Retry; r != nil {
		limit = limitOf(r.Never, r.Attempts, limit)
	}
	return limit
}

func limitOf(never bool, own, otherwise int) int {
	switch {
	case never:
		return 1
	case own != 0:
		return own
	}
	return otherwise
}

// laneIndent is where the values of a lane's fields begin.
const laneIndent = len("fingerprint") + columnGap

func laneFields(d *admin.LaneDetail, head *admin.EventDetail) []field {
	// Names are printable before they are wrapped: a line break in one makes no line.
	fields := []field{{"aggregate", printable(d.AggregateID)}, {"state", wrapped(printable(d.Sentence()), laneIndent)}}
	if d.Head != nil {
		fields = append(fields, field{"head", wrapped(printable(fmt.Sprintf("%s %s at position %d, received %s",
			d.Head.EventType, d.Head.EventID, d.Head.Position, cellText(d.Head.ReceivedAt))), laneIndent)})
	}
	if d.NextAttemptAt != nil {
		fields = append(fields, field{"next try", d.NextAttemptAt})
	}
	if d.Error != nil {
		fields = append(fields, field{"error", wrapped(d.Error.Message, laneIndent)},
			field{"error at", d.Error.At}, field{"fingerprint", d.Error.Fingerprint})
	}
	if r := d.Replay; r != nil {
		fields = append(fields, field{"replay", wrapped(replayProgress(r), laneIndent)})
	}
	if head != nil && head.Edit != nil {
		fields = append(fields, field{"edited", wrapped(fmt.Sprintf("at %s by %s: %s",
			cellText(head.Edit.At), head.Edit.Actor, head.Edit.Reason), laneIndent)})
	}
	if head != nil {
		fields = append(fields, field{"payload", payloadText(head, 20)})
	}
	return fields
}

// replayProgress says how far a replay has come.
func replayProgress(r *admin.ReplayProgress) string {
	did := r.Position - r.FromPosition + 1
	words := fmt.Sprintf("%s of %s from position %d to %d ran again", thousands(did),
		count(r.LastPosition-r.FromPosition+1, "event"), r.FromPosition, r.LastPosition)
	if did > 0 {
		words += fmt.Sprintf(", up to position %d", r.Position)
	}
	return words
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
	if len(d.Changes) > 0 {
		section(b, "Changes that are made when the running handler ends")
		b.Write(tableOf(pendingColumns, d.Changes, colour))
	}
	if len(d.Audit) > 0 {
		section(b, "Changes by operators")
		b.Write(tableOf(auditColumns, d.Audit, colour))
	}
}

var laneEventColumns = []column[admin.Event]{
	{head: "position", cell: func(e admin.Event) any { return e.Position }},
	{head: "event", cell: func(e admin.Event) any { return e.EventID }},
	{head: "type", cell: markedType, flex: true},
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
	{head: "what", cell: auditWhat},
	{head: "event", cell: func(e admin.AuditEntry) any { return e.EventID }},
	{head: "why", cell: auditWhy, flex: true},
}

var pendingColumns = []column[admin.PendingChange]{
	{head: "at", cell: func(p admin.PendingChange) any { return p.At }},
	{head: "who", cell: func(p admin.PendingChange) any { return p.Actor }, flex: true},
	{head: "what", cell: func(p admin.PendingChange) any { return string(p.Action) }},
	{head: "event", cell: func(p admin.PendingChange) any {
		if p.FromPosition != nil {
			return fmt.Sprintf("from %d", *p.FromPosition)
		}
		return p.EventID
	}},
	{head: "why", cell: func(p admin.PendingChange) any { return p.Reason }, flex: true},
}
