package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
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

// changePage changes lanes in one transaction, and those on their own that
// somebody holds who will soon be done: another operator.
func (r *bulkRun) changePage(ctx context.Context, lanes []Lane) ([]Change, error) {
	if err := ctx.Err(); err != nil || len(lanes) == 0 {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	var made map[int64]Change
	err := r.change(ctx, func(tx pgx.Tx) (err error) {
		made, err = r.changeFree(ctx, tx, lanes)
		return err
	})
	switch {
	case sqlState(err) == lockNotAvailable:
		made = nil // events of one of them are being stored; see which
	case err != nil:
		return nil, fmt.Errorf("%s %d lanes: %w", r.Action, len(lanes), err)
	}
	changes := make([]Change, 0, len(lanes))
	for i := range lanes {
		c, ok := made[lanes[i].id]
		if !ok {
			c, err = r.apply(ctx, order{r.Action, r.By, 0}, &lanes[i], r.since)
			if err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrNotFound) {
				return changes, err
			}
		}
		changes = append(changes, c)
	}
	return changes, nil
}

const (
	// By the primary key, in its order. It leaves out, rather than waits for, a
	// lane that somebody else has locked.
	lockLanesSQL = `select l.lane_id, l.cursor, l.version, l.generation, l.state
from unnest($1::bigint[]) s(lane_id)
join {schema}.lanes l on l.lane_id = s.lane_id
order by l.lane_id
for update of l skip locked`

	// In the order of the arrays, which is that of the aggregates' names: so
	// their rows are locked. change() is described in the migrations.
	changeLanesSQL = `select s.lane_id, {schema}.change(s.lane_id, $3, s.event_id, null, {schema}.who($4), $5)
from (
	select u.lane_id, u.event_id
	from unnest($1::bigint[], $2::text[]) with ordinality u(lane_id, event_id, ord)
	order by u.ord
) s`
)

// changeFree makes the change of those lanes that nobody else has locked, and
// records it for those whose handler may be running.
func (r *bulkRun) changeFree(ctx context.Context, tx pgx.Tx, lanes []Lane) (map[int64]Change, error) {
	ids := make([]int64, len(lanes))
	for i := range lanes {
		ids[i] = lanes[i].id
	}
	rows, err := collect(ctx, tx, scanLocked, r.in(lockLanesSQL), ids)
	if err != nil {
		return nil, err
	}
	free := make(map[int64]locked, len(rows))
	for _, l := range rows {
		free[l.id] = l
	}
	made := make(map[int64]Change, len(lanes))
	var fit []*Lane
	for i := range lanes {
		l := &lanes[i]
		now, ok := free[l.id]
		if !ok {
			if l.mayRun() {
				made[l.id], err = r.leave(ctx, tx, l)
			}
		} else if err = r.compare(ctx, tx, r.Action, l, now, r.since); err == nil {
			fit = append(fit, l)
		}
		if errors.Is(err, ErrRefused) {
			made[l.id] = notDone(l.AggregateID, r.Action, err)
		} else if err != nil {
			return nil, err
		}
	}
	return made, r.changeFit(ctx, tx, fit, made)
}

// mayRun reports that a handler may be what holds the lane.
func (l *Lane) mayRun() bool { return l.stored == Ready || l.stored == Backoff }

// leave leaves the change of a lane whose handler runs.
func (r *bulkRun) leave(ctx context.Context, tx pgx.Tx, l *Lane) (Change, error) {
	o := order{r.Action, r.By, 0}
	_, err := tx.Exec(ctx, r.in(requestChangeSQL), l.id, o.Action, l.headFor(o), nil, cleaned(o.Actor), o.reason())
	return l.change(r.Action, Recorded), err
}

func (r *bulkRun) changeFit(ctx context.Context, tx pgx.Tx, fit []*Lane, made map[int64]Change) error {
	if len(fit) == 0 {
		return nil
	}
	slices.SortFunc(fit, func(x, y *Lane) int { return strings.Compare(x.AggregateID, y.AggregateID) })
	o := order{r.Action, r.By, 0}
	ids, heads, byID := make([]int64, len(fit)), make([]*string, len(fit)), make(map[int64]*Lane, len(fit))
	for i, l := range fit {
		ids[i], heads[i], byID[l.id] = l.id, l.headFor(o), l
	}
	answers, err := collect(ctx, tx, scanAnswer, r.in(changeLanesSQL), ids, heads, o.Action, cleaned(o.Actor), o.reason())
	if err != nil {
		return err
	}
	for _, answer := range answers {
		l := byID[answer.lane]
		if answer.why == nil || l.freed(r.Action, *answer.why) {
			made[l.id] = l.change(r.Action, Done)
			continue
		}
		err := r.refusal(ctx, tx, r.Action, l, *answer.why)
		if !errors.Is(err, ErrRefused) {
			return err
		}
		made[l.id] = notDone(l.AggregateID, r.Action, err)
	}
	return nil
}

type answer struct {
	lane int64
	why  *string
}

func scanAnswer(row pgx.CollectableRow) (answer, error) {
	var a answer
	err := row.Scan(&a.lane, &a.why)
	return a, err
}
