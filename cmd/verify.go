package cmd

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

func newVerifyCmd(a *app) *cobra.Command {
	var o admin.VerifyOptions
	var since momentFlag
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Audit the order: no gap, no swap, no double, no lane stopped without a reason",
		Long: "Audit the order from what the database recorded in the transactions of the effects: that no event is\n" +
			"missing, ran out of order, twice, or was passed over without a skip on record, and that no lane is\n" +
			"stopped without a reason. It looks at one moment and may run beside serve. The exit code is 1 if\n" +
			"anything was found; the evidence is on stdout.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Since = since.at
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.verify(cmd.Context(), ops, o) })
		},
	}
	cmd.Flags().StringVar(&o.AggregateID, "aggregate", "", "audit this `AGGREGATE` only")
	cmd.Flags().Var(&since, "since", "leave out what happened before this `TIME`, or longer ago than that (24h)")
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) verify(ctx context.Context, ops *admin.Admin, o admin.VerifyOptions) error {
	r, err := ops.Verify(ctx, o)
	if err != nil {
		return err
	}
	if a.output == formatTable {
		err = a.writeViolations(r)
	} else {
		err = a.showJSON(r)
	}
	if err != nil {
		return err
	}
	if r.More > 0 {
		a.say("%s more violations are not listed", thousands(r.More))
	}
	if n := int64(len(r.Violations)) + r.More; n > 0 {
		return failed("%s of the order %s found", count(n, "violation"), agree(n, "was", "were"))
	}
	return nil
}

func (a *app) writeViolations(r *admin.Report) error {
	var b strings.Builder
	for _, v := range r.Violations {
		b.WriteString(violationText(v))
	}
	found := "no violation"
	if n := int64(len(r.Violations)) + r.More; n > 0 {
		found = count(n, "violation")
	}
	fmt.Fprintf(&b, "%s and %s audited: %s\n", count(r.Aggregates, "aggregate"), count(r.Events, "event"), found)
	_, err := a.stdout.Write([]byte(b.String()))
	return wroteStdout(err)
}

// violationText is a line that names the place, and the evidence below it.
func violationText(v admin.Violation) string {
	place := string(v.Kind)
	if v.AggregateID != "" {
		place += "  aggregate " + printable(v.AggregateID)
	}
	if v.Position != nil {
		place += fmt.Sprintf("  position %d", *v.Position)
	}
	if v.EventID != nil {
		place += "  event " + printable(*v.EventID)
	}
	const indent = "    "
	return place + "\n" + indent + strings.ReplaceAll(wrapped(v.Detail, len(indent)), "\n", "\n"+indent) + "\n"
}
