package cmd

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

// replayFlags are what lanes replay was asked for.
type replayFlags struct {
	from, only  string
	by          admin.By
	dryRun, yes bool
}

func newLanesReplayCmd(a *app) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay AGGREGATE --from EVENT_ID|POSITION --reason TEXT",
		Short: "Run a lane's events again from one on, in order",
		Long: "Run a lane's events again: the one that is named, by its id or by its position, and all behind it, in\n" +
			"order; new events wait behind them. Handlers are told that it is a replay (e.Replay), events that had been\n" +
			"skipped run too, and what the first run wrote stays: the effects happen again, so it takes a confirmation.\n\n" +
			"A replay that fails is stuck like any other lane, and inboxd lanes show says how far it came.\n" +
			"Events whose retention has ended cannot be replayed.",
		Args: exactArgs("AGGREGATE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			f.by.Actor = a.actorOr(f.by.Actor)
			return a.operate(cmd.Context(), func(ops *admin.Admin) error { return a.replay(cmd.Context(), ops, args[0], f) })
		},
	}
	cmd.Flags().StringVar(&f.from, "from", "", "`EVENT` to begin at: its id or, if no event has that id, its position")
	cmd.Flags().StringVar(&f.only, "only", "", "refused: events cannot be picked out, since that would break their order")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "list the events that would run again, and change nothing")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&f.by.Reason, "reason", "", "`TEXT` for the audit")
	_ = cmd.Flags().MarkHidden("only") // the flag exists
	a.addActorFlag(cmd, &f.by.Actor)
	a.addOutputFlag(cmd)
	return cmd
}

func (f *replayFlags) check(cmd *cobra.Command) error {
	path := cmd.CommandPath()
	switch {
	case cmd.Flags().Changed("only"):
		return refused("%s has no --only: events that run again without those behind them would break the order of their aggregate", path).
			withHint("use --from to run again from an event on, all of them in order")
	case f.from == "":
		return wrongUse("%s is missing --from: the event to begin at", path).withHint("see: %s --help", path)
	case strings.TrimSpace(f.by.Reason) == "" && !f.dryRun:
		return wrongUse("%s is missing --reason: a replay is on record with its reason", path)
	}
	return nil
}

func (a *app) replay(ctx context.Context, ops *admin.Admin, aggregate string, f replayFlags) error {
	plan, err := ops.ReplayPlan(ctx, aggregate, f.from)
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.wouldReplay(ctx, ops, plan)
	}
	if !f.yes {
		a.say("%s %s again, with what their handlers do.", replayWords(plan), agree(plan.Events(), "runs", "run"))
		if plan.Lane.Pending > 0 && plan.Lane.Head != nil {
			a.say("%s behind them.", count(plan.Lane.Pending, "new event")+" "+agree(plan.Lane.Pending, "waits", "wait"))
		}
		if err := a.confirm(ctx, "replay "+count(plan.Events(), "event")); err != nil {
			return err
		}
	}
	change, err := ops.Replay(ctx, f.by, plan)
	if err != nil {
		return err
	}
	name := printable(aggregate)
	switch change.Status {
	case admin.Recorded:
		a.say("%s: the replay is recorded; it is taken when the running handler ends", name)
	default:
		a.say("%s %s again", replayWords(plan), agree(plan.Events(), "runs", "run"))
		a.say("to see how far it has come: inboxd lanes show %s", printable(shellWord(aggregate)))
	}
	return a.showChanges([]admin.Change{change})
}

// replayWords says which events run again: "3 events of order-17, from Paid ev-3
// at position 3 to position 5".
func replayWords(p *admin.ReplayPlan) string {
	words := fmt.Sprintf("%s of %s, from %s %s at position %d", count(p.Events(), "event"), printable(p.Lane.AggregateID),
		printable(p.From.EventType), printable(p.From.EventID), p.From.Position)
	if p.Events() > 1 {
		words += fmt.Sprintf(" to position %d", p.Last)
	}
	if p.Skipped > 0 {
		words += fmt.Sprintf(" (%s %s skipped before)", thousands(p.Skipped), agree(p.Skipped, "was", "were"))
	}
	return words
}

// wouldReplay lists the events that a replay would run again.
func (a *app) wouldReplay(ctx context.Context, ops *admin.Admin, p *admin.ReplayPlan) error {
	err := bounded[admin.Event]{
		listing: listing[admin.Event]{columns: historyEventColumns, noun: "events"},
		from: func(limit int) iter.Seq2[admin.Event, error] {
			return limited(ops.Replayed(ctx, p), limit)
		},
		count: func() (int, error) { return int(p.Events()), nil },
	}.write(a, 0)
	if err != nil {
		return err
	}
	a.say("%s would run again; nothing was changed", replayWords(p))
	return nil
}

// limited is the first n of a sequence; 0: all.
func limited[T any](all iter.Seq2[T, error], n int) iter.Seq2[T, error] {
	if n == 0 {
		return all
	}
	return func(yield func(T, error) bool) {
		left := n
		for v, err := range all {
			if !yield(v, err) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}
