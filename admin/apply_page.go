package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

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
