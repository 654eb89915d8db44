package cmd

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

// laneChange is a command that changes lanes: those that are named, or all that
// its flags mean.
type laneChange struct {
	action admin.Action
	did    string // what was done to the lanes that it changed: "retried"

	filter      admin.Filter
	by          admin.By
	event       string
	dryRun, yes bool
	canary      int
	canaryWait  time.Duration
}

// command makes the command, with the flags that all of them have.
func (c *laneChange) command(a *app, use, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long + manyLanes,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := c.check(cmd, names); err != nil {
				return err
			}
			c.by.Actor = a.actorOr(c.by.Actor)
			return a.operate(cmd.Context(), func(ops *admin.Admin) error {
				switch {
				case len(names) == 0:
					return c.all(cmd.Context(), a, ops)
				case c.dryRun:
					return c.wouldNamed(cmd.Context(), a, ops, names)
				}
				return c.named(cmd.Context(), a, ops, names)
			})
		},
	}
	states, _ := c.action.States()
	a.addFilterFlags(cmd, &c.filter, states)
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "say which lanes would be changed, and change nothing")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&c.by.Reason, "reason", "", "`TEXT` for the audit")
	a.addActorFlag(cmd, &c.by.Actor)
	a.addOutputFlag(cmd)
	return cmd
}

// filterFlags are those of addFilterFlags.
var filterFlags = []string{"state", "error", "type", "older-than", "limit"}

func (c *laneChange) check(cmd *cobra.Command, names []string) error {
	filtered := ""
	for _, name := range filterFlags {
		if cmd.Flags().Changed(name) && filtered == "" {
			filtered = "--" + name
		}
	}
	path := cmd.CommandPath()
	states, _ := c.action.States()
	switch {
	case len(names) == 0 && (filtered == "" || filtered == "--limit"):
		return wrongUse("%s is missing its AGGREGATE, or a filter", path).
			withHint("to %s every %s lane: %s --state %s", c.action, states[0], path, states[0])
	case len(names) > 0 && filtered != "":
		return wrongUse("%s takes aggregates or a filter, not both: %s is given beside %q", path, filtered, names[0]).
			withHint("see: %s --help", path)
	case len(names) > 0 && c.canary != 0:
		return wrongUse("--canary is for many lanes: it takes a filter, and %q is named", names[0]).withHint("see: %s --help", path)
	case c.action == admin.Skip:
		return c.checkSkip(path, names)
	case c.action == admin.Pause && strings.TrimSpace(c.by.Reason) == "" && !c.dryRun:
		return wrongUse("%s is missing --reason: a lane that waits says why", path)
	}
	return nil
}

func (c *laneChange) checkSkip(path string, names []string) error {
	switch {
	case len(names) > 1:
		return wrongUse("%s takes one aggregate, so %q is one too many: each skip names its event", path, names[1])
	case len(names) == 1 && c.event == "":
		return wrongUse("%s is missing --event: the head that is to be passed over", path).
			withHint("inboxd lanes show %s says which it is", shellWord(names[0]))
	case len(names) == 0 && c.event != "":
		return wrongUse("--event names the head of one lane, and a filter is given").withHint("see: %s --help", path)
	case strings.TrimSpace(c.by.Reason) == "" && !c.dryRun:
		return wrongUse("%s is missing --reason: a skip is on record with its reason", path)
	}
	return nil
}

// named changes the lanes of the aggregates that are named.
func (c *laneChange) named(ctx context.Context, a *app, ops *admin.Admin, names []string) error {
	var changes []admin.Change
	var failures []error
	for _, name := range names {
		change, err := ops.Apply(ctx, c.action, c.by, admin.Target{AggregateID: name, EventID: c.event})
		switch {
		case err == nil:
			c.say(a, change)
		case errors.Is(err, admin.ErrNotFound), errors.Is(err, admin.ErrRefused):
			failures = append(failures, err)
		default:
			failures = append(failures, operationFailure(err))
			return errors.Join(a.showChanges(changes), partFailure(done(changes), errors.Join(failures...)))
		}
		changes = append(changes, change)
	}
	if err := a.showChanges(changes); err != nil {
		return err
	}
	return partFailure(done(changes), errors.Join(failures...))
}

// say says what was done to a lane, or will be.
func (c *laneChange) say(a *app, change admin.Change) {
	name, head := printable(change.AggregateID), "its head"
	if change.EventID != nil {
		head = printable(*change.EventType) + " " + printable(*change.EventID)
	}
	switch {
	case change.Status == admin.Recorded:
		a.say("%s: the %s is recorded; it is taken when the running handler ends", name, c.action)
	case c.action == admin.Retry:
		a.say("%s: %s runs again", name, head)
	case c.action == admin.Skip:
		a.say("%s: %s was skipped; what waits behind it runs", name, head)
		a.say("to undo it while the event is kept: inboxd lanes replay %s --from %s --reason TEXT", printable(shellWord(change.AggregateID)), printable(shellWord(*change.EventID)))
	case c.action == admin.Resume:
		a.say("%s: resumed", name)
	default:
		a.say("%s: paused", name)
	}
}

// showChanges writes what became of lanes, in the JSON formats; what a table
// would say is said already.
func (a *app) showChanges(changes []admin.Change) error {
	if a.output == formatTable {
		return nil
	}
	return listing[admin.Change]{rows: each(changes), noun: "lanes"}.write(a)
}

// done counts the changes that were made, or will be.
func done(changes []admin.Change) int {
	n := 0
	for _, c := range changes {
		if c.Status == admin.Done || c.Status == admin.Recorded {
			n++
		}
	}
	return n
}

// partFailure is the failure of a command of several parts, some of which were
// done.
func partFailure(done int, err error) error {
	switch {
	case err == nil:
		return nil
	case done > 0:
		return doneInPart("%w", err)
	}
	if errors.Is(err, admin.ErrRefused) { // and some may not exist
		return refused("%w", err)
	}
	return operationFailure(err)
}

// wouldNamed says what named would do.
func (c *laneChange) wouldNamed(ctx context.Context, a *app, ops *admin.Admin, names []string) error {
	var lanes []admin.Lane
	var failures []error
	for _, name := range names {
		d, err := ops.Lane(ctx, name)
		if err == nil {
			err = d.Can(c.action)
		}
		if err == nil && c.event != "" && (d.Head == nil || d.Head.EventID != c.event) {
			err = refused("the lane of %q has another head: %s", name, d.Sentence())
		}
		switch {
		case err == nil:
			lanes = append(lanes, d.Lane)
		case errors.Is(err, admin.ErrNotFound), errors.Is(err, admin.ErrRefused), c.event != "":
			failures = append(failures, err)
		default:
			return err
		}
	}
	if len(lanes) > 0 || a.output != formatTable {
		if err := (listing[admin.Lane]{rows: each(lanes), columns: laneColumns, noun: "lanes"}).write(a); err != nil {
			return err
		}
	}
	a.say("would %s %s; nothing was changed", c.action, count(int64(len(lanes)), "lane"))
	return partFailure(len(lanes), errors.Join(failures...))
}
