package cmd

import (
	"context"
	"iter"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

func newQuarantineCmd(a *app) *cobra.Command {
	return noun("quarantine", "See records that could not become events", newQuarantineListCmd(a), newQuarantineShowCmd(a))
}

func newQuarantineListCmd(a *app) *cobra.Command {
	var f admin.QuarantineFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List records in quarantine, the newest first",
		Args:  exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.listQuarantine(cmd.Context(), ops, f) })
		},
	}
	addLimitFlag(cmd, &f.Limit, "records")
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) listQuarantine(ctx context.Context, ops *admin.Admin, f admin.QuarantineFilter) error {
	return bounded[admin.Quarantined]{
		listing: listing[admin.Quarantined]{columns: quarantineColumns, noun: "records in quarantine"},
		from: func(limit int) iter.Seq2[admin.Quarantined, error] {
			f.Limit = limit
			return ops.Quarantine(ctx, f)
		},
		count: func() (int, error) { return ops.CountQuarantine(ctx) },
	}.write(a, f.Limit)
}

var quarantineColumns = []column[admin.Quarantined]{
	{head: "id", cell: func(q admin.Quarantined) any { return q.ID }},
	{head: "received", cell: func(q admin.Quarantined) any { return q.ReceivedAt }},
	{head: "source", cell: func(q admin.Quarantined) any { return sourceText(q.Source) }, flex: true},
	{head: "size", cell: func(q admin.Quarantined) any { return q.Size }},
	{head: "reason", cell: func(q admin.Quarantined) any { return q.Reason }},
	{head: "detail", cell: func(q admin.Quarantined) any { return firstLine(q.Detail) }, flex: true},
}

func newQuarantineShowCmd(a *app) *cobra.Command {
	var id int64
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one record with its bytes",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := exactArgs("ID")(cmd, args); err != nil {
				return err
			}
			var err error
			if id, err = strconv.ParseInt(args[0], 10, 64); err != nil {
				return wrongUse("%q is not the id of a record in quarantine, which is a number", args[0]).
					withHint("the ids are in: inboxd quarantine list")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.operate(cmd.Context(), func(ops *admin.Admin) error {
				d, err := ops.QuarantineRecord(cmd.Context(), id)
				if err != nil {
					return err
				}
				return a.show(d, quarantineFields(d), nil)
			})
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

func quarantineFields(d *admin.QuarantinedDetail) []field {
	return []field{
		{"id", d.ID}, {"received", d.ReceivedAt}, {"reason", d.Reason}, {"detail", wrapped(d.Detail, len("received")+columnGap)},
		{"source", sourceText(d.Source)}, {"size", d.Size}, {"headers", headersText(d.Headers)},
		{"key", nullableText(d.Key)}, {"value", nullableText(d.Value)},
	}
}

// nullableText is bytesText, and null for what a record does not have.
func nullableText(b []byte) any {
	if b == nil {
		return nil
	}
	return bytesText(b)
}
