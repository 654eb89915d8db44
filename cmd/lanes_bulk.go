package cmd

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/inboxd/inboxd/admin"
)

// bulkSample is how many lanes are shown before it is asked, and bulkRefused how
// many that were left are named afterwards.
const (
	bulkSample  = 5
	bulkRefused = 20
)

// all changes every lane that the filter means.
func (c *laneChange) all(ctx context.Context, a *app, ops *admin.Admin) error {
	total, err := ops.CountAffected(ctx, c.action, c.filter)
	if err != nil {
		return err
	}
	if c.filter.Limit > 0 {
		total = min(total, c.filter.Limit)
	}
	if total == 0 {
		a.say("there is no lane to %s that the filter means", c.action)
		return a.showChanges(nil)
	}
	if c.dryRun {
		if err := c.listAffected(ctx, a, ops); err != nil {
			return err
		}
		a.say("would %s %s; nothing was changed", c.action, count(int64(total), "lane"))
		return nil
	}
	if !c.yes {
		if err := c.sample(ctx, a, ops, total); err != nil {
			return err
		}
		if err := a.confirm(ctx, string(c.action)+" "+count(int64(total), "lane")); err != nil {
			return err
		}
	}
	if c.canary > 0 {
		a.say("first %s, for at most %s each", count(int64(min(c.canary, total)), "lane"), brief(c.canaryWait))
	}
	b := &bulk{laneChange: c, app: a, total: total}
	return b.run(ctx, ops)
}

func (c *laneChange) listAffected(ctx context.Context, a *app, ops *admin.Admin) error {
	f := c.filter
	return bounded[admin.Lane]{
		listing: listing[admin.Lane]{columns: laneColumns, noun: "lanes"},
		from: func(limit int) iter.Seq2[admin.Lane, error] {
			f.Limit = limit
			return ops.Affected(ctx, c.action, f)
		},
		count: func() (int, error) { return ops.CountAffected(ctx, c.action, f) },
	}.write(a, c.filter.Limit)
}

// sample shows the first lanes on stderr, before it is asked.
func (c *laneChange) sample(ctx context.Context, a *app, ops *admin.Admin, total int) error {
	f := c.filter
	f.Limit = min(total, bulkSample)
	var sample []admin.Lane
	for l, err := range ops.Affected(ctx, c.action, f) {
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

// bulk is a change of many lanes on its way.
type bulk struct {
	*laneChange
	app   *app
	total int // that the filter meant before

	done, recorded, refused int
	left                    []admin.Change // the first that were refused
	err                     error          // what ended it
}

func (b *bulk) run(ctx context.Context, ops *admin.Admin) error {
	changes := ops.ApplyAll(ctx, admin.Bulk{
		Action: b.action, By: b.by, Filter: b.filter, Canary: b.canary, CanaryWait: b.canaryWait,
	})
	var err error
	tell := b.app.progressOf(b.did, "lane", int64(b.total))
	if b.app.output == formatTable {
		b.counted(changes)(func(admin.Change, error) bool {
			tell.at(int64(b.done + b.recorded + b.refused))
			return true
		})
	} else {
		err = listing[admin.Change]{rows: b.counted(changes), noun: "lanes"}.write(b.app)
	}
	tell.end()
	return errors.Join(b.end(ctx), err)
}

// counted gives the changes and counts them. It ends without an error, so that
// what is written of them is whole.
func (b *bulk) counted(changes iter.Seq2[admin.Change, error]) iter.Seq2[admin.Change, error] {
	return func(yield func(admin.Change, error) bool) {
		for c, err := range changes {
			if err != nil {
				b.err = err
				return
			}
			switch c.Status {
			case admin.Done:
				b.done++
			case admin.Recorded:
				b.recorded++
			default:
				if b.refused++; len(b.left) < bulkRefused {
					b.left = append(b.left, c)
				}
			}
			if !yield(c, nil) {
				return
			}
		}
	}
}

// end says how it ended.
func (b *bulk) end(ctx context.Context) error {
	did := fmt.Sprintf("%s %s", b.did, count(int64(b.done), "lane"))
	if b.recorded > 0 {
		did += fmt.Sprintf("; recorded %s, to be made when %s running %s", thousands(int64(b.recorded)),
			agree(int64(b.recorded), "its", "their"), agree(int64(b.recorded), "handler ends", "handlers end"))
	}
	some := b.done+b.recorded > 0
	var canary *admin.CanaryError
	switch {
	case errors.As(b.err, &canary):
		return b.canaryFailure(canary)
	case b.err != nil && ctx.Err() != nil && some:
		return doneInPart("interrupted: %s of %s; the rest is as it was", did, thousands(int64(b.total))).
			withHint("the same command goes on")
	case b.err != nil && some:
		return doneInPart("%s of %s, then: %w", did, thousands(int64(b.total)), b.err).withHint("the same command goes on")
	case b.err != nil:
		return b.err
	case b.refused > 0 && !some:
		return refused("nothing was done: %s", b.refusals()).withHint("look again with: inboxd lanes list")
	case b.refused > 0:
		return doneInPart("%s; %s", did, b.refusals()).withHint("look again with: inboxd lanes list")
	}
	b.app.say("%s", did)
	return nil
}

// refusals lists the lanes that were left, and why.
func (b *bulk) refusals() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s left as %s:", agree(int64(b.refused), "1 lane was", thousands(int64(b.refused))+" lanes were"),
		agree(int64(b.refused), "it is", "they are"))
	for _, c := range b.left {
		s.WriteString("\n  " + *c.Detail)
	}
	if more := b.refused - len(b.left); more > 0 {
		fmt.Fprintf(&s, "\n  and %s more; -o json names all", thousands(int64(more)))
	}
	return s.String()
}

func (b *bulk) canaryFailure(err *admin.CanaryError) error {
	exit := refused
	if b.done > 0 {
		exit = doneInPart
	}
	for _, c := range err.Lanes {
		if c.Trial != nil && c.Trial.Outcome == admin.TrialOpen {
			return exit("%w", err).withHint("is a process running lanes (inboxd serve)? --canary-wait gives them longer")
		}
	}
	for _, c := range err.Lanes {
		if c.Trial != nil && c.Trial.Outcome == admin.TrialFailed {
			return exit("%w", err).withHint("see why: inboxd lanes show %s", shellWord(c.AggregateID))
		}
	}
	return exit("%w", err).withHint("look again with: inboxd lanes list")
}
