package cmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

// resetFlags are what sources reset was asked for.
type resetFlags struct {
	topic       string // empty: all that are configured
	partitions  []int32
	to          resetTarget
	beyond      bool
	dryRun, yes bool
	by          admin.By
}

func newSourcesResetCmd(a *app) *cobra.Command {
	var f resetFlags
	cmd := &cobra.Command{
		Use:   "reset --topic TOPIC --to oldest|newest|TIME|OFFSET",
		Short: "Move the offsets of the consumer group, after a preview",
		Long: "Move the group's offsets of a topic: back, so that records are read again, or forward, so that they are\n" +
			"passed over. It is also the way on for a partition that has stopped because its next offset is not in the\n" +
			"log. No process of the group may be running.\n\n" +
			"Records that are read again are duplicates and change nothing, as long as the inbox remembers their ids.\n" +
			"It does so for retention.processed; what is older would be stored, and take effect, a second time. To go\n" +
			"back so far takes --beyond-dedup-window.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.topic == "" {
				return wrongUse("%s is missing --topic", cmd.CommandPath()).withHint("the topics are in: inboxd sources list")
			}
			if f.to.text == "" {
				return wrongUse("%s is missing --to: oldest, newest, a time or an offset", cmd.CommandPath())
			}
			f.by.Actor = a.actorOr(f.by.Actor)
			db, err := a.openDatabase(cmd.Context())
			if err != nil {
				return err
			}
			defer db.close()
			return operationFailure(a.resetSource(cmd.Context(), db, f))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.topic, "topic", "", "the `TOPIC` whose offsets are moved")
	fs.Int32SliceVar(&f.partitions, "partition", nil, "only this `PARTITION`; may be given again (default: all)")
	fs.Var(&f.to, "to", "`WHERE` to read on: oldest, newest, an offset, a time such as 2026-01-31T12:00:00Z, or how long ago, such as 24h")
	fs.BoolVar(&f.dryRun, "dry-run", false, "say what would be moved, and change nothing")
	addResetFlags(cmd, &f)
	fs.StringVar(&f.by.Reason, "reason", "", "`TEXT` for the audit")
	a.addActorFlag(cmd, &f.by.Actor)
	a.addOutputFlag(cmd)
	return cmd
}

// addResetFlags gives a command the flags that answer what a reset asks.
func addResetFlags(cmd *cobra.Command, f *resetFlags) {
	cmd.Flags().BoolVar(&f.beyond, "beyond-dedup-window", false, "also read again what the inbox may no longer remember")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
}

// resetSource previews, asks, and moves.
func (a *app) resetSource(ctx context.Context, db *database, f resetFlags) error {
	broker, cancel := context.WithTimeout(ctx, brokerLimit)
	defer cancel()
	r, err := a.planReset(broker, db, f)
	if err != nil {
		return err
	}
	defer r.group.Close()
	if len(r.moves) == 0 {
		a.say("the group is there already; there is nothing to move")
		return nil
	}
	if err := r.preview(a); err != nil {
		return err
	}
	moves := count(int64(len(r.moves)), "partition")
	refusal := r.refuse()
	switch {
	case f.dryRun && refusal != nil:
		a.say("it would be refused: %v", refusal)
		fallthrough
	case f.dryRun:
		a.say("would move %s; nothing was changed", moves)
		return nil
	case refusal != nil:
		return refusal
	case !f.yes:
		if err := a.confirm(ctx, "move "+moves); err != nil {
			return err
		}
	}
	if err := r.move(ctx, admin.New(db.pool, db.schema)); err != nil {
		return err
	}
	a.say("moved %s; serve reads on from there", moves)
	return nil
}

// preview shows the moves: on stdout where they are what was asked for, otherwise
// on stderr before it is asked.
func (r *reset) preview(a *app) error {
	if r.flags.dryRun || a.output != formatTable {
		if err := (listing[offsetMove]{rows: each(r.moves), columns: moveColumns, noun: "partitions"}).write(a); err != nil {
			return err
		}
	} else {
		a.say("%s", strings.TrimRight(string(tableOf(moveColumns, r.moves, a.colourful(a.stderr))), "\n"))
	}
	for _, sentence := range r.sentences() {
		a.say("%s", sentence)
	}
	return nil
}

// refuse says why the move may not be made without more words.
func (r *reset) refuse() error {
	if len(r.members) > 0 {
		return hasMembers(r.members)
	}
	if r.beyond > 0 && !r.flags.beyond {
		return refused("%s would be read again that the inbox may no longer remember, so that they take effect a second time; nothing was changed",
			count(r.beyond, "record")).
			withHint("go back no further than %s, or add --beyond-dedup-window", r.window.Since.Format("2006-01-02T15:04:05Z"))
	}
	return nil
}

func hasMembers(members []string) error {
	return refused("the group has %s (%s), which would go on from where it is; nothing was changed",
		count(int64(len(members)), "member"), strings.Join(members, ", ")).
		withHint("stop every inboxd serve of the group first; one that was killed is a member until its session time-out, 10s")
}
