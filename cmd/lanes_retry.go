package cmd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

// retryFlags are what lanes retry was asked for.
type retryFlags struct {
	filter      admin.Filter
	by          admin.By
	dryRun, yes bool
}

func newLanesRetryCmd(a *app) *cobra.Command {
	var f retryFlags
	cmd := &cobra.Command{
		Use:   "retry AGGREGATE… | --state stuck [--error FINGERPRINT]",
		Short: "Run the heads of stuck and backing-off lanes again now",
		Long: "Run the heads of lanes that are stuck or backing off again now, their attempts counted from zero:\n" +
			"those of the aggregates that are named, or of all lanes that the flags mean. Order is kept: what waits\n" +
			"behind a head waits on until it is done.\n\n" +
			"Many lanes are changed in transactions of up to 500. An interrupted command leaves the rest as it is,\n" +
			"and the same command again goes on.",
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := f.check(cmd, names); err != nil {
				return err
			}
			f.by.Actor = a.actorOr(f.by.Actor)
			return a.operate(cmd.Context(), func(ops *admin.Admin) error {
				switch {
				case len(names) == 0:
					return a.retryAll(cmd.Context(), ops, f)
				case f.dryRun:
					return a.wouldRetry(cmd.Context(), ops, names)
				}
				return a.retryNamed(cmd.Context(), ops, f.by, names)
			})
		},
	}
	addFilterFlags(cmd, &f.filter, []admin.State{admin.Stuck, admin.Backoff})
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be retried, and change nothing")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&f.by.Reason, "reason", "", "`TEXT` for the audit")
	a.addActorFlag(cmd, &f.by.Actor)
	a.addOutputFlag(cmd)
	return cmd
}

// filterFlags are those of addFilterFlags.
var filterFlags = []string{"state", "error", "type", "older-than", "limit"}

func (f *retryFlags) check(cmd *cobra.Command, names []string) error {
	filtered := ""
	for _, name := range filterFlags {
		if cmd.Flags().Changed(name) && filtered == "" {
			filtered = "--" + name
		}
	}
	switch {
	case len(names) == 0 && (filtered == "" || filtered == "--limit"):
		return wrongUse("%s is missing its AGGREGATE, or a filter", cmd.CommandPath()).
			withHint("to retry every stuck lane: %s --state stuck", cmd.CommandPath())
	case len(names) > 0 && filtered != "":
		return wrongUse("%s takes aggregates or a filter, not both: %s is given beside %q", cmd.CommandPath(), filtered, names[0]).
			withHint("see: %s --help", cmd.CommandPath())
	}
	return nil
}

func (a *app) retryNamed(ctx context.Context, ops *admin.Admin, by admin.By, names []string) error {
	targets := make([]admin.Target, len(names))
	for i, name := range names {
		targets[i].AggregateID = name
	}
	done, err := ops.Retry(ctx, by, targets...)
	for _, r := range done {
		a.say("%s: %s %s runs again", printable(r.AggregateID), printable(r.EventType), printable(r.EventID))
	}
	return partFailure(len(done), err)
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

// wouldRetry says what retryNamed would do.
func (a *app) wouldRetry(ctx context.Context, ops *admin.Admin, names []string) error {
	var lanes []admin.Lane
	var failures []error
	for _, name := range names {
		d, err := ops.Lane(ctx, name)
		if err == nil {
			err = d.CanRetry()
		}
		switch {
		case err == nil:
			lanes = append(lanes, d.Lane)
		case errors.Is(err, admin.ErrNotFound), errors.Is(err, admin.ErrRefused):
			failures = append(failures, err)
		default:
			return err
		}
	}
	if len(lanes) > 0 {
		if err := (listing[admin.Lane]{rows: each(lanes), columns: laneColumns, noun: "lanes"}).write(a); err != nil {
			return err
		}
	}
	a.say("would retry %s; nothing was changed", count(int64(len(lanes)), "lane"))
	return partFailure(len(lanes), errors.Join(failures...))
}

// retrySample is how many lanes are shown before it is asked.
const retrySample = 5

func (a *app) retryAll(ctx context.Context, ops *admin.Admin, f retryFlags) error {
	total, err := ops.CountRetryable(ctx, f.filter)
	if err != nil {
		return err
	}
	if f.filter.Limit > 0 {
		total = min(total, f.filter.Limit)
	}
	if total == 0 {
		a.say("no lane is held that the filter means; there is nothing to retry")
		return nil
	}
	if f.dryRun {
		if err := a.listRetryable(ctx, ops, f.filter); err != nil {
			return err
		}
		a.say("would retry %s; nothing was changed", count(int64(total), "lane"))
		return nil
	}
	if !f.yes {
		if err := a.sampleRetryable(ctx, ops, f.filter, total); err != nil {
			return err
		}
		if err := a.confirm(ctx, "retry "+count(int64(total), "lane")); err != nil {
			return err
		}
	}
	p, err := ops.RetryAll(ctx, f.by, f.filter, func(p admin.Progress) { a.progress("retried", p, total) })
	return a.retriedAll(ctx, p, total, err)
}

func (a *app) listRetryable(ctx context.Context, ops *admin.Admin, f admin.Filter) error {
	return bounded[admin.Lane]{
		listing: listing[admin.Lane]{columns: laneColumns, noun: "lanes"},
		from: func(limit int) iter.Seq2[admin.Lane, error] {
			f.Limit = limit
			return ops.Retryable(ctx, f)
		},
		count: func() (int, error) { return ops.CountRetryable(ctx, f) },
	}.write(a, f.Limit)
}

// sampleRetryable shows the first lanes on stderr, before it is asked.
func (a *app) sampleRetryable(ctx context.Context, ops *admin.Admin, f admin.Filter, total int) error {
	f.Limit = min(total, retrySample)
	var sample []admin.Lane
	for l, err := range ops.Retryable(ctx, f) {
		if err != nil {
			return err
		}
		sample = append(sample, l)
	}
	a.say("%s", strings.TrimRight(string(tableOf(laneColumns, sample, a.colourful(a.stderr))), "\n"))
	if more := total - len(sample); more > 0 {
		a.say("and %s", count(int64(more), "more lane"))
	}
	return nil
}

// progress says on a terminal how far a change of many lanes has come, in one
// line that is written over.
func (a *app) progress(did string, p admin.Progress, total int) {
	if isTerminal(a.stderr) && total > admin.PageSize {
		a.sayOver("%s %s of %s", did, thousands(int64(p.Done)), count(int64(total), "lane"))
	}
}

// retriedAll says how a bulk retry ended.
func (a *app) retriedAll(ctx context.Context, p admin.Progress, total int, err error) error {
	if isTerminal(a.stderr) && total > admin.PageSize {
		a.sayOver("")
	}
	did := "retried " + count(int64(p.Done), "lane")
	switch {
	case err != nil && ctx.Err() != nil && p.Done > 0:
		return doneInPart("interrupted: %s of %s; the rest is as it was", did, thousands(int64(total))).
			withHint("the same command goes on")
	case err != nil && p.Done > 0:
		return doneInPart("%s of %s, then: %w", did, thousands(int64(total)), err).withHint("the same command goes on")
	case err != nil:
		return err
	case p.Left > 0 && p.Done == 0:
		return refused("%s changed meanwhile, or somebody else was changing them; nothing was done", count(int64(p.Left), "lane")).
			withHint("look again with: inboxd lanes list")
	case p.Left > 0:
		return doneInPart("%s; %s changed meanwhile, or somebody else was changing them", did, count(int64(p.Left), "other")).
			withHint("look again with: inboxd lanes list")
	}
	a.say("%s", did)
	return nil
}

// sayOver writes a line to a terminal that the next one is written over.
func (a *app) sayOver(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, "\r\x1b[K"+format, args...) // there is nowhere else to say it
}
