package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/jsonl"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/service"
)

func newQuarantineRequeueCmd(a *app) *cobra.Command {
	var f quarantineChange
	cmd := &cobra.Command{
		Use:   "requeue ID… | --reason-code WORD",
		Short: "Store records as events after all, by the present configuration",
		Long: "Give records to the inbox once more, after the configuration was put right: those that are named, or all\n" +
			"that the flags mean, the oldest first. What becomes an event, or is a duplicate of one, leaves quarantine;\n" +
			"the rest stays, and it is said why.\n\n" +
			"An event behind which others of its aggregate should stand that were stored meanwhile has lost its place\n" +
			"in order. It is stored with --yes only, and runs behind them.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.by.Actor = a.actorOr(f.by.Actor)
			return a.requeue(cmd.Context(), &f)
		},
	}
	f.add(a, cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) requeue(ctx context.Context, f *quarantineChange) error {
	db, err := a.openDatabase(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	decode, err := a.recordDecoder(db.config)
	if err != nil {
		return err
	}
	ops := admin.New(db.pool, db.schema)
	how := admin.Requeueing{Decode: decode, OutOfOrder: f.yes, DryRun: f.dryRun}
	if len(f.ids) == 0 {
		return operationFailure(a.requeueAll(ctx, ops, f, how))
	}
	return operationFailure(a.requeueNamed(ctx, ops, f, how))
}

// recordDecoder makes events of records as serve does and, of those that came
// from a file, as ingest does.
func (a *app) recordDecoder(c *config.Config) (func(inbox.Record) (inbox.Event, error), error) {
	if err := a.registerConfigured(c); err != nil {
		return nil, err
	}
	decoder, err := service.Decoder(c)
	if err != nil {
		return nil, err
	}
	records := &inbox.Ingester{Decoder: decoder, Ignored: a.reg.Ignores}
	lines := &inbox.Ingester{Decoder: jsonl.NewDecoder(), Ignored: a.reg.Ignores}
	return func(r inbox.Record) (inbox.Event, error) {
		if r.Source.IsZero() {
			return lines.Decode(r)
		}
		return records.Decode(r)
	}, nil
}

func (a *app) requeueNamed(ctx context.Context, ops *admin.Admin, f *quarantineChange, how admin.Requeueing) error {
	if how.DryRun {
		how.OutOfOrder = true // to be shown
		rows, err := ops.Requeue(ctx, f.by, how, f.ids...)
		if listed := a.listRequeued(rows); listed != nil {
			return listed
		}
		a.say("would requeue %s; nothing was changed", requeuedWords(rows))
		return quarantineFailure(len(rows), err)
	}
	if _, asks := a.asks(); asks && !f.yes {
		agreed, err := a.askOutOfOrder(ctx, ops, f, how)
		if err != nil {
			return err
		}
		how.OutOfOrder = agreed
	}
	done, err := ops.Requeue(ctx, f.by, how, f.ids...)
	for _, r := range done {
		a.say("%s", becameWords(r))
	}
	if a.output != formatTable {
		if err := a.listRequeued(done); err != nil {
			return err
		}
	}
	return outOfOrderHint(quarantineFailure(len(done), err))
}

// outOfOrderHint says what to do about records that lost their place.
func outOfOrderHint(err error) error {
	var lost *admin.OutOfOrderError
	var exit *exitError
	if errors.As(err, &lost) && errors.As(err, &exit) {
		return exit.withHint("look at what runs before it; to store it out of order all the same, add --yes")
	}
	return err
}

// askOutOfOrder asks about the records that lost their place, if there are any.
func (a *app) askOutOfOrder(ctx context.Context, ops *admin.Admin, f *quarantineChange, how admin.Requeueing) (bool, error) {
	how.DryRun, how.OutOfOrder = true, true
	rows, _ := ops.Requeue(ctx, f.by, how, f.ids...) // its errors come again
	lost := int64(0)
	for _, r := range rows {
		if r.OutOfOrder {
			lost++
			a.say("%d: %s of %s has lost its place: events that came after it are stored already",
				r.ID, printable(r.EventID), printable(r.AggregateID))
		}
	}
	if lost == 0 {
		return false, nil
	}
	return true, a.confirm(ctx, "store "+count(lost, "record")+" out of order")
}

// requeuePreview is how many records are tried before it is asked.
const requeuePreview = 1000

func (a *app) requeueAll(ctx context.Context, ops *admin.Admin, f *quarantineChange, how admin.Requeueing) error {
	total, err := f.meant(ctx, a, ops, "requeue")
	if err == nil && total == 0 && a.output != formatTable {
		return a.listRequeued(nil)
	}
	if err != nil || total == 0 {
		return err
	}
	if f.dryRun || !f.yes {
		if err := a.tryRequeue(ctx, ops, f, how, total); err != nil || f.dryRun {
			return err
		}
		if err := a.confirm(ctx, "requeue "+count(total, "record")); err != nil {
			return err
		}
		how.OutOfOrder = true
	}
	var done []admin.Requeued
	left := &leftovers{}
	tell := a.progressOf("requeued", "record", total)
	p, err := ops.RequeueAll(ctx, f.by, how, f.filter(), func(r admin.Requeued, err error) {
		if err != nil {
			left.add(err)
			return
		}
		done = append(done, r)
		tell.at(int64(len(done)))
	})
	tell.end()
	if a.output != formatTable {
		if err := a.listRequeued(done); err != nil {
			return err
		}
	}
	did := "requeued " + requeuedWords(done)
	if err := endOfChange(ctx, did, int64(p.Done), total, err, left); err != nil {
		return err
	}
	a.say("%s", did)
	return nil
}

// tryRequeue says what would become of the records: all of them in a dry run, of
// which it writes the list; else the first of them.
func (a *app) tryRequeue(ctx context.Context, ops *admin.Admin, f *quarantineChange, how admin.Requeueing, total int64) error {
	how.DryRun, how.OutOfOrder = true, true
	filter, of := f.filter(), ""
	if !f.dryRun && total > requeuePreview {
		filter.Limit = requeuePreview
		of = ", of the first " + thousands(requeuePreview)
	}
	var rows []admin.Requeued
	left := &leftovers{}
	_, err := ops.RequeueAll(ctx, f.by, how, filter, func(r admin.Requeued, err error) {
		if err != nil {
			left.add(err)
			return
		}
		rows = append(rows, r)
	})
	if err != nil {
		return err
	}
	if f.dryRun {
		if err := a.listRequeued(rows); err != nil {
			return err
		}
	}
	a.say("would requeue %s%s; nothing was changed", requeuedWords(rows), of)
	if left.total > 0 {
		a.say("%s in quarantine:\n%s", count(left.total, "record")+" would stay", left.text())
	}
	return nil
}
