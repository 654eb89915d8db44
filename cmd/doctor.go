package cmd

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/internal/doctor"
	"github.com/inboxd/inboxd/migrations"
)

func newDoctorCmd(a *app) *cobra.Command {
	var use migrations.Use
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the deployment, and say what to do about what is wrong",
		Long: "Check the database and how it is reached, the schema and the privileges of the present role, lanes,\n" +
			"tables and sessions, event types without a handler, and Kafka. It changes nothing. Each remedy is a\n" +
			"command or SQL. The exit code is 1 if a check failed, 5 if no database answers.\n\n" +
			"Run it where serve runs, with the same configuration: it answers for the role and the handlers that\n" +
			"it finds there.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), use) },
	}
	words := make([]string, 0, len(migrations.Uses()))
	for _, u := range migrations.Uses() {
		words = append(words, string(u))
	}
	choice := &choiceFlag{choices: words, chosen: func(s string) { use = migrations.Use(s) }}
	cmd.Flags().Var(choice, "for", "the role must be allowed to do this `WORD`: "+strings.Join(words, ", ")+" (default: any of them)")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) doctor(ctx context.Context, use migrations.Use) error {
	db, err := a.poolDatabase(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	if err := a.registerFor(db); err != nil {
		return err
	}
	report := doctor.Examine(ctx, doctor.Options{Pool: db.pool, Config: db.config, Registry: a.reg, Use: use})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	l := listing[doctor.Result]{rows: each(report.Results), columns: doctorColumns, noun: "checks"}
	if err := l.write(a); err != nil {
		return err
	}
	if a.output == formatTable {
		if _, err := a.stdout.Write(remedies(report.Results)); err != nil {
			return wroteStdout(err)
		}
	}
	if report.Unreachable != nil {
		return databaseFailure(report.Unreachable)
	}
	if n := int64(report.Failed()); n > 0 {
		return failed("%s failed", count(n, "check"))
	}
	return nil
}

var doctorColumns = []column[doctor.Result]{
	{head: "check", cell: func(r doctor.Result) any { return r.Check }},
	{head: "status", cell: func(r doctor.Result) any { return string(r.Status) }},
	{head: "detail", cell: func(r doctor.Result) any { return r.Detail }, flex: true},
}

// remedies says in full what is wrong, and below it what to type: what is several
// lines long is written once.
func remedies(results []doctor.Result) []byte {
	var b bytes.Buffer
	written := map[string]string{} // the check that had a remedy first
	for _, r := range results {
		if r.Remedy == nil {
			continue
		}
		section(&b, r.Check+": "+string(r.Status))
		const indent = "  "
		fmt.Fprintf(&b, "%s%s\n", indent, strings.ReplaceAll(wrapped(r.Detail, len(indent)), "\n", "\n"+indent))
		if first, again := written[*r.Remedy]; again && strings.Contains(*r.Remedy, "\n") {
			fmt.Fprintf(&b, "%s%sas for %s, above\n", indent, indent, first)
			continue
		}
		written[*r.Remedy] = r.Check
		for line := range strings.Lines(*r.Remedy) {
			fmt.Fprintf(&b, "%s%s%s\n", indent, indent, printable(strings.TrimRight(line, "\n")))
		}
	}
	return b.Bytes()
}
