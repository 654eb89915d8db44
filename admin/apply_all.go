package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Bulk is a change of many lanes.
type Bulk struct {
	// Action is Retry, Skip, Pause or Resume.
	Action Action
	// By needs a Reason for a Skip and a Pause.
	By By
	// Filter says which lanes are meant, of those that Action.States has.
	Filter Filter
	// Canary is how many lanes are retried first, those that have waited
	// longest: the others are only if the heads of all of these succeed. 0: no
	// lane comes first. It is for Retry alone.
	Canary int
	// CanaryWait is how long they may take. Default 1 min.
	CanaryWait time.Duration
}

func (b Bulk) chosen() (selection, error) {
	s, err := b.Action.selection(b.Filter)
	switch {
	case err != nil:
		return s, err
	case b.Action.needsReason() && b.By.Reason == "":
		return s, invalid("a %s needs a reason", b.Action)
	case b.Canary < 0:
		return s, invalid("%d lanes cannot be retried first", b.Canary)
	case b.CanaryWait < 0:
		return s, invalid("a wait of %s makes no sense: it must not be negative", b.CanaryWait)
	case b.Canary > 0 && b.Action != Retry:
		return s, invalid("only a retry can try some lanes first")
	}
	return s, nil
}

// CountAffected answers how many lanes ApplyAll would change now.
func (a *Admin) CountAffected(ctx context.Context, c Action, f Filter) (int, error) {
	s, err := c.selection(f)
	if err != nil {
		return 0, err
	}
	return a.count(ctx, s)
}

// Affected lists the lanes that ApplyAll would change now, as Lanes does.
func (a *Admin) Affected(ctx context.Context, c Action, f Filter) iter.Seq2[Lane, error] {
	s, err := c.selection(f)
	if err != nil {
		return func(yield func(Lane, error) bool) { yield(Lane{}, err) }
	}
	return a.each(ctx, s)
}

// bulkSize is how many lanes share a transaction.
const bulkSize = 100

// ApplyAll changes every lane that the filter means and that the action is for,
// up to Filter.Limit: those that were so when it began, each once. Each is
// compared with what was seen of it, as in Apply. Up to a hundred share a
// transaction; what it gives was committed before. A lane whose handler runs is
// not waited for: its change is Recorded.
//
// It ends at the first error, and between two transactions when ctx ends: what
// was done stays done, and the same call again goes on. With canaries of which
// one fails, the error is a CanaryError.
func (a *Admin) ApplyAll(ctx context.Context, b Bulk) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		r, err := a.bulk(ctx, b)
		if err == nil {
			err = r.run(ctx, yield)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Change{}, err)
		}
	}
}

// bulkRun is a Bulk on its way.
type bulkRun struct {
	*Admin
	Bulk
	selection
	since int64 // the last row of the audit when it began
	left  int   // of Filter.Limit
}

const beganSQL = `select clock_timestamp(), coalesce(max(id), 0) from {schema}.audit`

func (a *Admin) bulk(ctx context.Context, b Bulk) (*bulkRun, error) {
	s, err := b.chosen()
	if err != nil {
		return nil, err
	}
	r := &bulkRun{Admin: a, Bulk: b, selection: s, left: b.Filter.Limit}
	// What has been held since later is left out: a lane that fails again at
	// once would be met again.
	if err := a.db.QueryRow(ctx, a.in(beganSQL)).Scan(&r.before, &r.since); err != nil {
		return nil, fmt.Errorf("%s lanes: %w", b.Action, err)
	}
	return r, nil
}

func (r *bulkRun) run(ctx context.Context, yield func(Change, error) bool) error {
	if r.Canary > 0 {
		if more, err := r.canaries(ctx, yield); err != nil || !more {
			return err
		}
	}
	for {
		changes, more, err := r.next(ctx, bulkSize)
		if err != nil {
			return err
		}
		for _, c := range changes {
			if !yield(c, nil) {
				return errEnough
			}
		}
		if !more {
			return nil
		}
	}
}

// next changes the next lanes, up to size, and answers whether there may be
// others behind them.
func (r *bulkRun) next(ctx context.Context, size int) (changes []Change, more bool, err error) {
	if r.Bulk.Filter.Limit > 0 {
		size = min(size, r.left)
	}
	lanes, next, err := r.page(ctx, r.selection, size)
	if err != nil {
		return nil, false, err
	}
	changes, err = r.changePage(ctx, lanes)
	r.left -= len(lanes)
	r.After = next
	return changes, next != "" && (r.Bulk.Filter.Limit == 0 || r.left > 0), err
}
