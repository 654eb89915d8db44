package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Target is a lane that is to be changed, and what was seen of it.
type Target struct {
	AggregateID string
	// EventID is the head that was seen: the change is refused if the lane has
	// another one by now. Empty: whatever the head is when the change begins.
	EventID string
}

const (
	// who() and change() are described in the migrations.
	changeSQL = `select {schema}.change($1, $2, $3, $4, {schema}.who($5), $6)`

	requestChangeSQL = `select {schema}.request_change($1, $2, $3, $4, $5, $6)`
	makeChangesSQL   = `select {schema}.make_changes(array[$1::bigint])`

	// By the index changes_lane.
	pendingSQL = `select change_id, at, actor, action, event_id, to_position, reason
from {schema}.changes
where lane_id = $1
order by change_id`
)

// order is a change that was ordered.
type order struct {
	Action
	By
	from int64 // the position to replay from
}

// Apply changes one lane. It compares: the head is the one that was seen, and no
// other operator has changed the lane meanwhile, or the change is refused with a
// RefusedError. While a handler runs it waits for a second; then the change is
// Recorded, and made when the handler is done.
//
// A Skip and a Pause need By.Reason, a Skip also Target.EventID. Replay has a method of its own.
func (a *Admin) Apply(ctx context.Context, c Action, by By, t Target) (Change, error) {
	switch {
	case c == Replay:
		return Change{}, invalid("a replay begins at an event: use Admin.Replay")
	case c.needsReason() && by.Reason == "":
		return Change{}, invalid("a %s needs a reason", c)
	case c == Skip && t.EventID == "":
		return Change{}, invalid("a skip needs the event to pass over, so that it never meets another one")
	}
	since, l, err := a.seen(ctx, t)
	if err == nil {
		err = l.Can(c)
	}
	if err != nil {
		return notDone(t.AggregateID, c, err), err
	}
	return a.apply(ctx, order{c, by, 0}, &l, since)
}

// seen looks at the lane of a target before it is changed, and at where the
// audit ends.
func (a *Admin) seen(ctx context.Context, t Target) (since int64, l Lane, err error) {
	wrap := func(err error) (int64, Lane, error) {
		return 0, Lane{}, fmt.Errorf("read the lane of %q: %w", t.AggregateID, err)
	}
	for range 2 {
		if err := a.db.QueryRow(ctx, a.in(lastAuditSQL)).Scan(&since); err != nil {
			return wrap(err)
		}
		l, err = a.laneByName(ctx, a.db, t.AggregateID)
		if errors.Is(err, ErrNotFound) {
			return 0, Lane{}, err
		} else if err != nil {
			return wrap(err)
		}
		made, err := a.makePending(ctx, l.id)
		if err != nil {
			return wrap(err)
		}
		if !made {
			break
		}
	}
	if t.EventID != "" && (l.Head == nil || l.Head.EventID != t.EventID) {
		head := "it has no unprocessed event"
		if l.Head != nil {
			head = "its head is " + l.headWords()
		}
		return 0, Lane{}, refused(t.AggregateID, "the lane of %q has moved on: %s, no longer %s", t.AggregateID, head, t.EventID)
	}
	return since, l, nil
}

// makePending makes the changes that were recorded for a lane whose handler is
// done by now: they come before any other. It answers whether it made any.
func (a *Admin) makePending(ctx context.Context, lane int64) (bool, error) {
	pending, err := collect(ctx, a.db, scanPending, a.in(pendingSQL), lane)
	if err != nil || len(pending) == 0 {
		return false, err
	}
	var made []int64
	err = a.change(ctx, func(tx pgx.Tx) error { return tx.QueryRow(ctx, a.in(makeChangesSQL), lane).Scan(&made) })
	if sqlState(err) == lockNotAvailable {
		return false, nil // the worker makes them
	}
	return len(made) > 0, err
}

// apply makes a change of a lane as it was seen, or leaves it to be made. What
// it began it ends, whatever becomes of ctx: nobody is left in doubt.
func (a *Admin) apply(ctx context.Context, o order, l *Lane, since int64) (Change, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeLimit)
	defer cancel()
	err := a.change(ctx, func(tx pgx.Tx) error {
		rows, err := collect(ctx, tx, scanLocked, a.in(lockLaneSQL), l.id)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return noAggregate(l.AggregateID)
		}
		if err := a.compare(ctx, tx, o.Action, l, rows[0], since); err != nil {
			return err
		}
		var why *string
		if err := tx.QueryRow(ctx, a.in(changeSQL), l.id, o.Action, l.headFor(o), o.position(), cleaned(o.Actor), o.reason()).Scan(&why); err != nil {
			return err
		}
		if why != nil && !l.freed(o.Action, *why) {
			return a.refusal(ctx, tx, o.Action, l, *why)
		}
		return nil
	})
	status := Done
	if sqlState(err) == lockNotAvailable {
		status, err = Recorded, a.record(ctx, o, l)
	}
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrNotFound):
		return notDone(l.AggregateID, o.Action, err), err
	case err != nil:
		return Change{}, fmt.Errorf("%s the lane of %q: %w", o.Action, l.AggregateID, err)
	}
	return l.change(o.Action, status), nil
}

// changeLimit bounds a transaction that changes lanes: it is not cut short by a
// request to stop.
const changeLimit = 30 * time.Second

// freed reports that there was nothing to resume because the lane's type goes on
// by now, and the lane with it.
func (l *Lane) freed(c Action, why string) bool {
	return c == Resume && why == "nothing" && l.PausedType != nil
}

// headFor is the event that the lane's head has to be for the change.
func (l *Lane) headFor(o order) *string {
	if l.Head == nil || o.Action == Pause || o.Action == Replay {
		return nil
	}
	return &l.Head.EventID
}

func (o order) position() *int64 {
	if o.Action != Replay {
		return nil
	}
	return &o.from
}

// reason is nil if there is none.
func (o order) reason() *string {
	if o.Reason == "" {
		return nil
	}
	s := cleaned(o.Reason)
	return &s
}

// record leaves a change to be made when the running handler is done. One that
// is left already is not left twice.
func (a *Admin) record(ctx context.Context, o order, l *Lane) error {
	return a.change(ctx, func(tx pgx.Tx) error {
		pending, err := collect(ctx, tx, scanPending, a.in(pendingSQL), l.id)
		if err != nil {
			return err
		}
		for _, p := range pending {
			if p.Action == o.Action {
				return refused(l.AggregateID, "the lane of %q has a %s by %s already, which is made when the running handler ends",
					l.AggregateID, p.Action, p.Actor)
			}
		}
		_, err = tx.Exec(ctx, a.in(requestChangeSQL), l.id, o.Action, l.headFor(o), o.position(), cleaned(o.Actor), o.reason())
		return err
	})
}
