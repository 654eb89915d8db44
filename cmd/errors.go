package cmd

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

func newErrorsCmd(a *app) *cobra.Command {
	return noun("errors", "See what lanes are held by, by cause", newErrorsListCmd(a))
}

func newErrorsListCmd(a *app) *cobra.Command {
	var f admin.ErrorFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Group the lanes that are stuck or back off by the cause of it",
		Long: "Group the lanes that are stuck, back off, or wait for a dependency that is down, by the fingerprint of\n" +
			"their heads' last errors: the causes that hold most lanes come first. Ids, numbers, times and quoted values\n" +
			"make no difference to a fingerprint.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.listErrors(cmd.Context(), ops, f) })
		},
	}
	cmd.Flags().StringVar(&f.Type, "type", "", "lanes whose head has this event `TYPE`")
	addLimitFlag(cmd, &f.Limit, "causes")
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) listErrors(ctx context.Context, ops *admin.Admin, f admin.ErrorFilter) error {
	groups, err := ops.Errors(ctx, f)
	if err != nil {
		return err
	}
	if err := (listing[admin.ErrorGroup]{rows: each(groups), columns: errorColumns, noun: "errors"}).write(a); err != nil {
		return err
	}
	if a.output != formatTable || len(groups) == 0 {
		return nil
	}
	var b bytes.Buffer
	writeReleases(&b, groups[:min(len(groups), maxTableRows)], f.Type)
	_, err = a.stdout.Write(b.Bytes())
	return wroteStdout(err)
}

var errorColumns = []column[admin.ErrorGroup]{
	{head: "fingerprint", cell: func(g admin.ErrorGroup) any { return g.Fingerprint }},
	{head: "lanes", cell: func(g admin.ErrorGroup) any { return g.Lanes }},
	{head: "stuck", cell: func(g admin.ErrorGroup) any { return g.Stuck }},
	{head: "first", cell: func(g admin.ErrorGroup) any { return admin.Age(time.Since(g.FirstAt)) }},
	{head: "last", cell: func(g admin.ErrorGroup) any { return admin.Age(time.Since(g.LastAt)) }},
	{head: "types", cell: func(g admin.ErrorGroup) any { return g.EventTypes }, flex: true},
	{head: "message", cell: func(g admin.ErrorGroup) any { return errorLine(g.Message) }, flex: true},
}

// writeReleases writes the commands that have the lanes of each cause run again.
func writeReleases(b *bytes.Buffer, groups []admin.ErrorGroup, eventType string) {
	section(b, "When the cause is gone, run their lanes again with")
	for _, g := range groups {
		if command := release(g, eventType); command != "" {
			_, _ = fmt.Fprintf(b, "  %s\n", printable(command)) // to a buffer
		}
		for _, br := range g.Breakers {
			_, _ = fmt.Fprintf(b, "  inboxd lanes resume --type %s\n", printable(shellWord(br.EventType)))
			_, _ = fmt.Fprintf(b, "    but inboxd probes %s by itself: paused for %s, next probe %s\n",
				printable(br.EventType), admin.Age(time.Since(br.OpenedAt)), untilWords(br.NextProbeAt))
		}
	}
}

// release is the command that has the lanes of a cause run again; empty: they
// wait for its breakers alone.
func release(g admin.ErrorGroup, eventType string) string {
	state := ""
	switch {
	case g.Stuck > 0:
		state = " --state stuck"
	case g.Backoff == 0:
		return ""
	}
	if eventType != "" {
		state += " --type " + shellWord(eventType)
	}
	return "inboxd lanes retry" + state + " --error " + shellWord(g.Fingerprint)
}

func untilWords(t time.Time) string {
	if d := time.Until(t); d > 0 {
		return "in " + admin.Age(d)
	}
	return "now"
}
