package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// ReplayPlan is what a replay would do. Make one with Admin.ReplayPlan.
type ReplayPlan struct {
	// Lane is as it was seen.
	Lane Lane
	// From is the first event that runs again, and Last the position of the
	// last one: the farthest that was ever processed or skipped.
	From Head
	Last int64
	// Skipped counts those among them that had been skipped, and run now.
	Skipped int64

	since int64
}

// Events is how many events run again.
func (p *ReplayPlan) Events() int64 { return p.Last - p.From.Position + 1 }

const (
	// By the primary key of the inbox, and its unique constraint on ids.
	replayFromIDSQL = `select event_id, event_type, position, received_at from {schema}.inbox
where event_id = $1 and lane_id = $2
order by segment desc
limit 1`
	replayFromPositionSQL = `select event_id, event_type, position, received_at from {schema}.inbox
where position = $1 and lane_id = $2
limit 1`

	// By the primary key of the inbox.
	oldestSQL = `select min(position) from {schema}.inbox where lane_id = $1`

	lastPositionSQL = `select last_position from {schema}.aggregates where lane_id = $1`

	// By the primary key of the inbox; each event's fate by that of runs.
	replayedSQL = `select ` + eventColumnsSQL + `
from {schema}.events e
where e.lane_id = $1 and e.position between $2 and $3
order by e.position
limit $4`

	// By the primary key of runs, a generation at a time.
	skippedSQL = `select coalesce(sum(least(r.last_position, $3) - greatest(r.first_position, $2) + 1), 0)::bigint
from {schema}.runs r
where r.lane_id = $1 and r.generation = $4 and r.last_position between $2 and $3 and r.kind = 's'`
)

// ReplayPlan looks at what a replay of an aggregate's events would do, from the
// event that is named by its id or, if no event of the aggregate has that id, by
// its position. It refuses, with a RefusedError, a replay of what has not been
// processed yet, and one of events that are no longer kept.
func (a *Admin) ReplayPlan(ctx context.Context, aggregate, from string) (*ReplayPlan, error) {
	since, l, err := a.seen(ctx, Target{AggregateID: aggregate})
	if err != nil {
		return nil, err
	}
	p := &ReplayPlan{Lane: l, Last: max(l.cursor, l.replayedTo), since: since}
	if p.From, err = a.replayFrom(ctx, &l, from); err != nil {
		return nil, err
	}
	if p.From.Position > l.cursor {
		return nil, refused(aggregate, "%s %s of %q has not been processed yet: it runs when its turn comes", p.From.EventType, p.From.EventID, aggregate)
	}
	err = a.db.QueryRow(ctx, a.in(skippedSQL), l.id, p.From.Position, p.Last, l.generation).Scan(&p.Skipped)
	if err != nil {
		return nil, fmt.Errorf("read what was skipped in the lane of %q: %w", aggregate, err)
	}
	return p, nil
}

func (a *Admin) replayFrom(ctx context.Context, l *Lane, from string) (Head, error) {
	find := func(sql string, key any) (Head, error) {
		var h Head
		err := a.db.QueryRow(ctx, a.in(sql), key, l.id).Scan(&h.EventID, &h.EventType, &h.Position, &h.ReceivedAt)
		h.ReceivedAt = h.ReceivedAt.UTC()
		return h, err
	}
	fail := func(err error) (Head, error) {
		return Head{}, fmt.Errorf("find the event to replay the lane of %q from: %w", l.AggregateID, err)
	}
	if storable(from) {
		if h, err := find(replayFromIDSQL, from); !errors.Is(err, pgx.ErrNoRows) {
			if err != nil {
				return fail(err)
			}
			return h, nil
		}
	}
	position, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return Head{}, notFound("there is no event %q of %q in the inbox: it never was one, or it is no longer kept", from, l.AggregateID)
	}
	h, err := find(replayFromPositionSQL, position)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Head{}, a.noPosition(ctx, l, position)
	case err != nil:
		return fail(err)
	}
	return h, nil
}

// noPosition says why there is no event at a position.
func (a *Admin) noPosition(ctx context.Context, l *Lane, position int64) error {
	var oldest *int64
	var last int64
	err := a.db.QueryRow(ctx, a.in(oldestSQL), l.id).Scan(&oldest)
	if err == nil {
		err = a.db.QueryRow(ctx, a.in(lastPositionSQL), l.id).Scan(&last)
	}
	switch {
	case err != nil:
		return fmt.Errorf("find the events of %q: %w", l.AggregateID, err)
	case position < 1 || position > last:
		return notFound("%q has no event at position %d: its positions are 1 to %d", l.AggregateID, position, last)
	case oldest == nil:
		return refused(l.AggregateID, "no event of %q is kept any more, so that none can run again: their retention has ended", l.AggregateID)
	}
	return refused(l.AggregateID, "the event at position %d of %q is no longer kept: its retention has ended; the oldest that can run again is at position %d",
		position, l.AggregateID, *oldest)
}

// Replayed lists the events that would run again, in order.
func (a *Admin) Replayed(ctx context.Context, p *ReplayPlan) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		scan := func(row pgx.CollectableRow) (Event, error) { return scanEvent(row) }
		for next := p.From.Position; next <= p.Last; {
			page, err := collect(ctx, a.db, scan, a.in(replayedSQL), p.Lane.id, next, p.Last, PageSize)
			if err != nil {
				yield(Event{}, fmt.Errorf("list the events of %q: %w", p.Lane.AggregateID, err))
				return
			}
			if len(page) == 0 {
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				next = e.Position + 1
			}
		}
	}
}

// Replay has a lane run again from an event on: that event and all behind it, in
// order, before any that is new. Handlers see in their event that it is a
// replay. What the first run wrote stays as it is. Events that were skipped run.
// A pause by a person stays.
//
// It is refused if the lane was replayed since it was seen, and Recorded while a
// handler runs, as in Apply. It needs By.Reason.
func (a *Admin) Replay(ctx context.Context, by By, p *ReplayPlan) (Change, error) {
	if by.Reason == "" {
		return Change{}, invalid("a replay needs a reason")
	}
	c, err := a.apply(ctx, order{Replay, by, p.From.Position}, &p.Lane, p.since)
	c.EventID, c.EventType = &p.From.EventID, &p.From.EventType
	return c, err
}
