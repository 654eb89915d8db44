package cmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

// quarantineChange is what a command that changes the quarantine was asked for.
type quarantineChange struct {
	quarantineFlags
	ids              []int64
	by               admin.By
	all, dryRun, yes bool
}

// add gives the command its flags.
func (f *quarantineChange) add(a *app, cmd *cobra.Command) {
	f.quarantineFlags.add(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "every record in quarantine")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would happen, and change nothing")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&f.by.Reason, "reason", "", "`TEXT` for the audit")
	a.addActorFlag(cmd, &f.by.Actor)
	cmd.ValidArgsFunction = a.completion(findQuarantined)
	cmd.Args = f.args
}

// args takes ids or a filter, and not both.
func (f *quarantineChange) args(cmd *cobra.Command, args []string) (err error) {
	filtered := ""
	for _, name := range append([]string{"all"}, quarantineFilterNames...) {
		if cmd.Flags().Changed(name) && filtered == "" {
			filtered = "--" + name
		}
	}
	switch {
	case len(args) == 0 && (filtered == "" || filtered == "--limit"):
		return wrongUse("%s is missing its ID, or a filter", cmd.CommandPath()).
			withHint("to %s every record: %s --all", cmd.Name(), cmd.CommandPath())
	case len(args) > 0 && filtered != "":
		return wrongUse("%s takes ids or a filter, not both: %s is given beside %q", cmd.CommandPath(), filtered, args[0]).
			withHint("see: %s --help", cmd.CommandPath())
	}
	f.ids, err = quarantineIDs(args)
	return err
}

// meant counts the records of the filter, and says so if there is none.
func (f *quarantineChange) meant(ctx context.Context, a *app, ops *admin.Admin, verb string) (int64, error) {
	n, err := ops.CountQuarantine(ctx, f.filter())
	if limit := f.filter().Limit; limit > 0 {
		n = min(n, limit)
	}
	if err == nil && n == 0 {
		a.say("no record is in quarantine that the filter means; there is nothing to %s", verb)
	}
	return int64(n), err
}

// maxFailuresSaid is how many of the records that a command left as they are it
// says why.
const maxFailuresSaid = 20

// leftovers are the records that a change of many left as they are, and why.
type leftovers struct {
	said  []string
	total int64
}

func (l *leftovers) add(err error) {
	if l.total++; len(l.said) < maxFailuresSaid {
		l.said = append(l.said, err.Error())
	}
}

// text is a line for each.
func (l *leftovers) text() string {
	lines := strings.Join(l.said, "\n")
	if more := l.total - int64(len(l.said)); more > 0 {
		lines += "\nand " + count(more, "more record")
	}
	return lines
}

// endOfChange is how a change of many records ended.
func endOfChange(ctx context.Context, did string, done, total int64, err error, left *leftovers) error {
	switch {
	case err != nil && ctx.Err() != nil && done > 0:
		return doneInPart("interrupted: %s of %s; the rest is as it was", did, thousands(total)).withHint("the same command goes on")
	case err != nil && done > 0:
		return doneInPart("%s of %s, then: %w", did, thousands(total), operationFailure(err)).withHint("the same command goes on")
	case err != nil:
		return err
	case left.total > 0 && done == 0:
		return refused("%s in quarantine:\n%s", count(left.total, "record")+" "+agree(left.total, "stays", "stay"), left.text())
	case left.total > 0:
		return doneInPart("%s; %s in quarantine:\n%s", did, count(left.total, "record")+" "+agree(left.total, "stays", "stay"), left.text())
	}
	return nil
}
