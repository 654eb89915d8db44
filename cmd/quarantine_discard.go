package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

func newQuarantineDiscardCmd(a *app) *cobra.Command {
	var f quarantineChange
	cmd := &cobra.Command{
		Use:   "discard ID… | --reason-code WORD --reason TEXT",
		Short: "Remove records from quarantine for good",
		Long: "Remove records from quarantine for good: those that are named, or all that the flags mean. What is left of\n" +
			"each is a row of the audit: where it came from, why it was in quarantine, its size and SHA-256.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(f.by.Reason) == "" && !f.dryRun {
				return wrongUse("%s is missing --reason, which stays on record", cmd.CommandPath())
			}
			f.by.Actor = a.actorOr(f.by.Actor)
			return a.operate(cmd.Context(), func(ops *admin.Admin) error {
				switch {
				case len(f.ids) == 0:
					return a.discardAll(cmd.Context(), ops, &f)
				case f.dryRun:
					return a.wouldDiscard(cmd.Context(), ops, f.ids)
				}
				return a.discardNamed(cmd.Context(), ops, &f)
			})
		},
	}
	f.add(a, cmd)
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) discardNamed(ctx context.Context, ops *admin.Admin, f *quarantineChange) error {
	done, err := ops.Discard(ctx, f.by, f.ids...)
	for _, id := range done {
		a.say("%d: discarded", id)
	}
	if err := a.showDiscarded(len(done), len(f.ids)-len(done)); err != nil {
		return err
	}
	return quarantineFailure(len(done), err)
}

// discardReport is what became of records that were to be discarded, in the JSON
// formats; a table's reader was told.
type discardReport struct {
	Discarded int `json:"discarded"`
	Left      int `json:"left"` // they are there as before, or were gone already
}

func (a *app) showDiscarded(done, left int) error {
	if a.output == formatTable {
		return nil
	}
	return a.showJSON(discardReport{done, left})
}

// quarantineFailure is the failure of a command about several records, some of
// which were done.
func quarantineFailure(done int, err error) error {
	switch {
	case err == nil:
		return nil
	case done > 0:
		return doneInPart("%w", err)
	case errors.Is(err, admin.ErrRefused): // and some may not exist
		return refused("%w", err)
	}
	return operationFailure(err)
}

// wouldDiscard lists records that were named.
func (a *app) wouldDiscard(ctx context.Context, ops *admin.Admin, ids []int64) error {
	var records []admin.Quarantined
	var missing []error
	for _, id := range ids {
		d, err := ops.QuarantineRecord(ctx, id)
		switch {
		case err == nil:
			records = append(records, d.Quarantined)
		case errors.Is(err, admin.ErrNotFound):
			missing = append(missing, err)
		default:
			return err
		}
	}
	if len(records) > 0 {
		if err := (listing[admin.Quarantined]{rows: each(records), columns: quarantineColumns, noun: "records"}).write(a); err != nil {
			return err
		}
	}
	a.say("would discard %s; nothing was changed", count(int64(len(records)), "record"))
	return quarantineFailure(len(records), errors.Join(missing...))
}

func (a *app) discardAll(ctx context.Context, ops *admin.Admin, f *quarantineChange) error {
	total, err := f.meant(ctx, a, ops, "discard")
	if err != nil || total == 0 && a.output == formatTable {
		return err
	}
	if total == 0 && !f.dryRun {
		return a.showDiscarded(0, 0)
	}
	if f.dryRun {
		if err := a.listQuarantine(ctx, ops, f.filter()); err != nil {
			return err
		}
		a.say("would discard %s; nothing was changed", count(total, "record"))
		return nil
	}
	if !f.yes {
		if err := a.sampleQuarantine(ctx, ops, f.filter(), total); err != nil {
			return err
		}
		if err := a.confirm(ctx, "discard "+count(total, "record")+" for good"); err != nil {
			return err
		}
	}
	tell := a.progressOf("discarded", "record", total)
	p, err := ops.DiscardAll(ctx, f.by, f.filter(), func(p admin.QuarantineProgress) { tell.at(int64(p.Done)) })
	tell.end()
	if err := a.showDiscarded(p.Done, p.Left); err != nil {
		return err
	}
	left := &leftovers{}
	if p.Left > 0 {
		left.total = int64(p.Left)
		left.said = []string{"somebody else was changing them, or had removed them"}
	}
	did := "discarded " + count(int64(p.Done), "record")
	if err := endOfChange(ctx, did, int64(p.Done), total, err, left); err != nil {
		return err
	}
	a.say("%s", did)
	return nil
}

// quarantineSample is how many records are shown before it is asked.
const quarantineSample = 5

// sampleQuarantine shows the newest of the records on stderr, before it is asked.
func (a *app) sampleQuarantine(ctx context.Context, ops *admin.Admin, f admin.QuarantineFilter, total int64) error {
	f.Limit = int(min(total, quarantineSample))
	var sample []admin.Quarantined
	for q, err := range ops.Quarantine(ctx, f) {
		if err != nil {
			return err
		}
		sample = append(sample, q)
	}
	lines := string(tableOf(quarantineColumns, sample, a.colourful(a.stderr)))
	if more := total - int64(len(sample)); more > 0 {
		lines += fmt.Sprintf("and %s\n", count(more, "more record"))
	}
	a.say("%s", strings.TrimRight(lines, "\n"))
	return nil
}
