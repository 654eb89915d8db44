package cmd

import (
	"context"
	"iter"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

func newAuditCmd(a *app) *cobra.Command {
	return noun("audit", "See what operators changed", newAuditListCmd(a))
}

func newAuditListCmd(a *app) *cobra.Command {
	var f admin.AuditFilter
	var since, until momentFlag
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List changes by operators, the newest first",
		Long: "List what operators changed, the newest first: who, when, what and why. Who is the user of the database\n" +
			"and, behind a slash, the one that --actor named or the user of the operating system.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.From, f.Until = since.at, until.at
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.listAudit(cmd.Context(), ops, f) })
		},
	}
	cmd.Flags().StringVar(&f.AggregateID, "aggregate", "", "changes of this `AGGREGATE`")
	cmd.Flags().StringVar(&f.Action, "action", "", "changes of this `KIND`: retry, skip, edit, discard and so on")
	cmd.Flags().StringVar(&f.Actor, "actor", "", "changes by this `NAME`: as listed, or the part before or behind the slash")
	addTimeFlags(cmd, &since, &until, "changes made")
	addLimitFlag(cmd, &f.Limit, "changes")
	a.addOutputFlag(cmd)
	return cmd
}

// addTimeFlags gives a command that lists the flags --since and --until; what
// says of which things they are the time: "events received".
func addTimeFlags(cmd *cobra.Command, since, until *momentFlag, what string) {
	cmd.Flags().Var(since, "since", what+" at or after this `TIME`, or so long ago (90m)")
	cmd.Flags().Var(until, "until", what+" before this `TIME`, or longer ago (90m)")
}

func (a *app) listAudit(ctx context.Context, ops *admin.Admin, f admin.AuditFilter) error {
	return bounded[admin.AuditEntry]{
		listing: listing[admin.AuditEntry]{columns: auditListColumns, noun: "changes"},
		from: func(limit int) iter.Seq2[admin.AuditEntry, error] {
			f.Limit = limit
			return ops.Audit(ctx, f)
		},
		count: func() (int, error) { return ops.CountAudit(ctx, f) },
	}.write(a, f.Limit)
}

var auditListColumns = []column[admin.AuditEntry]{
	{head: "at", cell: func(e admin.AuditEntry) any { return e.At }},
	{head: "who", cell: func(e admin.AuditEntry) any { return e.Actor }, flex: true},
	{head: "what", cell: auditWhat},
	{head: "aggregate", cell: func(e admin.AuditEntry) any { return e.AggregateID }},
	{head: "event", cell: func(e admin.AuditEntry) any { return e.EventID }},
	{head: "why", cell: auditWhy, flex: true},
}
