package cmd

import (
	"fmt"
	"strings"

	"github.com/inboxd/inboxd/admin"
)

func (a *app) listRequeued(rows []admin.Requeued) error {
	if len(rows) == 0 && a.output == formatTable {
		return nil
	}
	return listing[admin.Requeued]{rows: each(rows), columns: requeuedColumns, noun: "records"}.write(a)
}

var requeuedColumns = []column[admin.Requeued]{
	{head: "id", cell: func(r admin.Requeued) any { return r.ID }},
	{head: "outcome", cell: func(r admin.Requeued) any { return r.Outcome }},
	{head: "order", cell: func(r admin.Requeued) any {
		if r.OutOfOrder {
			return "lost"
		}
		return "kept"
	}},
	{head: "event", cell: func(r admin.Requeued) any { return r.EventID }},
	{head: "aggregate", cell: func(r admin.Requeued) any { return r.AggregateID }},
	{head: "type", cell: func(r admin.Requeued) any { return r.EventType }, flex: true},
}

// requeuedWords counts records by what became of them.
func requeuedWords(rows []admin.Requeued) string {
	outcomes, lost := map[string]int64{}, int64(0)
	for _, r := range rows {
		outcomes[r.Outcome]++
		if r.OutOfOrder {
			lost++
		}
	}
	var words []string
	for _, outcome := range []string{"stored", "duplicate", "ignored"} {
		if n := outcomes[outcome]; n > 0 {
			words = append(words, thousands(n)+" "+outcome)
		}
	}
	text := count(int64(len(rows)), "record")
	if len(words) > 0 {
		text += ": " + strings.Join(words, ", ")
	}
	if lost > 0 {
		text += fmt.Sprintf(" (%s out of order)", thousands(lost))
	}
	return text
}

// becameWords say what became of a record.
func becameWords(r admin.Requeued) string {
	event := printable(r.EventType) + " " + printable(r.EventID) + " of " + printable(r.AggregateID)
	switch {
	case r.Outcome == "ignored":
		return fmt.Sprintf("%d: events of its type are ignored; it was removed", r.ID)
	case r.Outcome == "duplicate":
		return fmt.Sprintf("%d: %s is stored already; it was removed", r.ID, event)
	case r.OutOfOrder:
		return fmt.Sprintf("%d: stored as %s, behind events that came after it", r.ID, event)
	}
	return fmt.Sprintf("%d: stored as %s", r.ID, event)
}
