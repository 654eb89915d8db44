package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// chunk is how many lanes or events are looked at closely in one statement.
const chunk = 500

// closely calls look for parts of what was found suspicious, until enough is
// known; what is left counts as one violation each.
func closely[T any](v *verifier, suspects []T, look func([]T) error) error {
	for part := range slices.Chunk(suspects, chunk) {
		if v.full() {
			v.report.More += int64(len(part))
			continue
		}
		if err := look(part); err != nil {
			return err
		}
	}
	return nil
}

// gaps finds the positions that are missing or doubled in the lanes that lanes
// found to be broken.
func (v *verifier) gaps(ctx context.Context) error {
	return closely(v, v.broken, func(lanes []int64) error {
		return v.each(ctx, verifyGapsSQL, func(rows pgx.Rows) error {
			var x Violation
			var name *string
			var before, position int64
			if err := rows.Scan(&x.lane, &name, &before, &position); err != nil {
				return err
			}
			if name != nil {
				x.AggregateID = *name
			}
			x.Kind, x.Position = Gap, ptr(before+1)
			x.Detail = "missing from the inbox: " + events(before+1, position-1)
			if position == before {
				x.Kind, x.Position = DuplicatePosition, &position
				x.Detail = fmt.Sprintf("two events have position %d", position)
			}
			v.add(x)
			return nil
		}, lanes, v.since)
	})
}

// strangers finds the events that are in the lane of another aggregate.
func (v *verifier) strangers(ctx context.Context) error {
	return closely(v, v.strange, func(lanes []int64) error {
		return v.each(ctx, verifyStrangersSQL, func(rows pgx.Rows) error {
			var x Violation
			var position int64
			var id, owner string
			if err := rows.Scan(&x.lane, &x.AggregateID, &position, &id, &owner); err != nil {
				return err
			}
			x.Kind, x.Position, x.EventID = WrongLane, &position, &id
			x.Detail = fmt.Sprintf("the event is of aggregate %q", owner)
			v.add(x)
			return nil
		}, lanes, v.since)
	})
}

// doubles finds event ids that are stored in more than one segment.
func (v *verifier) doubles(ctx context.Context) error {
	sql, args := verifyDoublesSQL, []any{v.since}
	if v.lane != nil {
		sql, args = verifyLaneDoublesSQL, append(args, *v.lane)
	}
	var ids []string
	err := v.each(ctx, sql, func(rows pgx.Rows) error {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		if len(ids) >= v.limit { // more of them than can be kept
			v.report.More++
			return nil
		}
		ids = append(ids, id)
		return nil
	}, args...)
	if err != nil {
		return err
	}
	return closely(v, ids, func(part []string) error { return v.copies(ctx, part) })
}

// copies reports each of the events with the places where it is stored.
func (v *verifier) copies(ctx context.Context, ids []string) error {
	var x Violation
	var places []string
	report := func() {
		if len(places) > 1 {
			x.Detail = "the event is stored more than once: " + strings.Join(places, ", ")
			v.add(x)
		}
	}
	err := v.each(ctx, copiesSQL, func(rows pgx.Rows) error {
		var lane, position int64
		var id, aggregate string
		var segment int32
		if err := rows.Scan(&id, &lane, &aggregate, &position, &segment); err != nil {
			return err
		}
		if x.EventID == nil || *x.EventID != id {
			report()
			places = nil
		}
		x = Violation{Kind: DoubleEvent, AggregateID: aggregate, EventID: &id, Position: &position, lane: lane}
		places = append(places, fmt.Sprintf("at position %d of %q in segment %d", position, aggregate, segment))
		return nil
	}, ids)
	report()
	return err
}

func ptr[T any](v T) *T { return &v }
