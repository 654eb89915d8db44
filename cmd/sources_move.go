package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox/kafka"
)

// move does it in Kafka and puts it on record, topic by topic.
func (r *reset) move(ctx context.Context, ops *admin.Admin) error {
	for begin := 0; begin < len(r.moves); {
		end := begin + 1
		for end < len(r.moves) && r.moves[end].Topic == r.moves[begin].Topic {
			end++
		}
		err := r.moveTopic(ctx, ops, begin, end)
		switch {
		case errors.Is(err, admin.ErrNotRecorded):
			return doneInPart("the offsets of %s were moved, but the audit does not say so: %w", r.moves[begin].Topic, err)
		case err != nil && begin > 0:
			return doneInPart("%s moved, then: %w", count(int64(begin), "partition"), err)
		case err != nil:
			return err
		}
		begin = end
	}
	return nil
}

// moveTopic moves some partitions of one topic.
func (r *reset) moveTopic(ctx context.Context, ops *admin.Admin, begin, end int) error {
	moves, to := make([]admin.OffsetMove, 0, end-begin), make([]int64, 0, end-begin)
	for _, m := range r.moves[begin:end] {
		moves, to = append(moves, admin.OffsetMove{Partition: m.Partition, From: m.From, To: m.To}), append(to, m.To)
	}
	return ops.MoveOffsets(ctx, r.flags.by, r.config.Kafka.Group, r.moves[begin].Topic, moves, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, brokerLimit)
		defer cancel()
		err := r.group.Move(ctx, r.partitions[begin:end], to)
		if errors.Is(err, kafka.ErrHasMembers) {
			return hasMembers([]string{"it has come just now"})
		}
		return brokerFailure(ctx, r.config, err)
	})
}

// addFromFlags gives serve the flags that move offsets before it.
func (a *app) addFromFlags(cmd *cobra.Command, f *resetFlags) {
	cmd.Flags().Var(&f.to, "from", "first move the offsets of all topics to `WHERE`: oldest, newest, a time such as 2026-01-31T12:00:00Z, or how long ago, such as 24h")
	addResetFlags(cmd, f)
}

// checkServe says what is wrong with the flags of serve.
func (f *resetFlags) checkServe(cmd *cobra.Command, drain bool) error {
	switch {
	case f.to.text == "":
		for _, name := range []string{"yes", "beyond-dedup-window"} {
			if cmd.Flags().Changed(name) {
				return wrongUse("--%s answers what --from asks, and that is not given", name)
			}
		}
	case f.to.offset >= 0:
		return wrongUse("--from is %s, but one offset cannot be that of all partitions", f.to.text).
			withHint("see: inboxd sources reset --help")
	case drain:
		return wrongUse("--from is for what is ingested, and --drain ingests nothing")
	}
	return nil
}

// moveBefore moves the offsets of all topics before they are served, if that was
// asked for.
func (a *app) moveBefore(ctx context.Context, db *database, f resetFlags) error {
	if f.to.text == "" {
		return nil
	}
	if len(db.config.Kafka.Topics) == 0 {
		return wrongUse("--from is for what is ingested, and no topics are configured (kafka.topics)")
	}
	f.by = admin.By{Actor: a.actorOr(""), Reason: "serve --from " + f.to.text}
	return operationFailure(a.resetSource(ctx, db, f))
}
