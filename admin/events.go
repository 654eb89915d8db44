package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// EventFilter says which events are meant. The zero EventFilter means all.
type EventFilter struct {
	// AggregateID is the one aggregate whose events are listed.
	AggregateID string
	// Type is the event type.
	Type string
	// From and Until bound Event.ReceivedAt: From ≤ it < Until. Zero: no bound.
	From, Until time.Time
	// Processed is whether they were processed or skipped; nil: no matter.
	Processed *bool
	// Limit is how many events there are at most. 0: all.
	Limit int
}

func (f EventFilter) validate() error { return checkList(f.Limit, f.From, f.Until) }

// conditions are those on the inbox, as i, of one lane or, if it is 0, of all.
func (f EventFilter) conditions(lane int64) *query {
	q := &query{}
	q.and("true")
	if lane != 0 {
		q.and("i.lane_id = " + q.arg(lane))
	}
	if f.Processed != nil {
		q.and(f.done(q, lane))
	}
	if f.Type != "" {
		q.and("i.event_type = " + q.arg(cleaned(f.Type)))
	}
	if !f.From.IsZero() {
		q.and("i.received_at >= " + q.arg(f.From))
	}
	if !f.Until.IsZero() {
		q.and("i.received_at < " + q.arg(f.Until))
	}
	return q
}

// done is the condition about the lane's cursor. Of one lane it is a bound on the
// primary key of the inbox; of all lanes, a join.
func (f EventFilter) done(q *query, lane int64) string {
	than := map[bool]string{true: "<=", false: ">"}[*f.Processed]
	if lane != 0 {
		return "i.position " + than + " (select l.cursor from {schema}.lanes l where l.lane_id = " + q.arg(lane) + ")"
	}
	return "exists (select from {schema}.lanes l where l.lane_id = i.lane_id and i.position " + than + " l.cursor)"
}

// By the unique constraint on aggregates.
const laneIDSQL = `select lane_id from {schema}.aggregates where aggregate_id = $1`

// laneID finds the number of an aggregate's lane.
func (a *Admin) laneID(ctx context.Context, aggregate string) (int64, error) {
	if !storable(aggregate) {
		return 0, noAggregate(aggregate)
	}
	var id int64
	err := a.db.QueryRow(ctx, a.in(laneIDSQL), aggregate).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, noAggregate(aggregate)
	}
	if err != nil {
		return 0, fmt.Errorf("find aggregate %q: %w", aggregate, err)
	}
	return id, nil
}

func noAggregate(aggregate string) error {
	return notFound("there is no aggregate %q: no event of it was ever stored", aggregate)
}

// Events lists events: those of one aggregate in the order of their positions;
// else the newest first. An aggregate's events are found by index, in pages;
// without one, the inbox is searched, and a connection is held for as long as
// the caller takes. It ends at the first error.
func (a *Admin) Events(ctx context.Context, f EventFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := f.validate()
		if err == nil && f.AggregateID != "" {
			err = a.eachOfLane(ctx, f, yield)
		} else if err == nil {
			err = a.eachNewest(ctx, f, yield)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Event{}, err)
		}
	}
}

// errEnough says that yield wants no more.
var errEnough = errors.New("enough")

// eachOfLane reads pages by the primary key of the inbox.
func (a *Admin) eachOfLane(ctx context.Context, f EventFilter, yield func(Event, error) bool) error {
	lane, err := a.laneID(ctx, f.AggregateID)
	if err != nil {
		return err
	}
	left, after := f.Limit, int64(0)
	for {
		size := PageSize
		if f.Limit > 0 {
			size = min(left, PageSize)
		}
		q := f.conditions(lane)
		q.and("i.position > " + q.arg(after))
		var page []Event
		err := a.eachEvent(ctx, q, "i.position", "picked.position", size, func(e Event, _ error) bool {
			page = append(page, e)
			return true
		})
		if err != nil {
			return err
		}
		for _, e := range page {
			if !yield(e, nil) {
				return errEnough
			}
			after = e.Position
		}
		if left -= len(page); len(page) < size || left == 0 {
			return nil
		}
	}
}

// eachEvent picks events and then looks at each of them through the view. The
// error is errEnough when yield wanted no more.
func (a *Admin) eachEvent(ctx context.Context, q *query, order, again string, limit int, yield func(Event, error) bool) error {
	sql := `select ` + eventColumnsSQL + `
from (
	select i.lane_id, i.position, i.segment, i.received_at
	from {schema}.inbox i
	where ` + strings.Join(q.where, "\n\t\tand ") + `
	order by ` + order + `
	limit nullif(` + q.arg(limit) + `::bigint, 0)
) picked
join {schema}.events e on e.lane_id = picked.lane_id and e.position = picked.position and e.segment = picked.segment
order by ` + again
	err := a.read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, a.in(sql), q.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			e, err := scanEvent(rows)
			if err != nil {
				return err
			}
			if !yield(e, nil) {
				return errEnough
			}
		}
		return rows.Err()
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("list events: %w", err)
	}
	return err
}

// CountEvents answers how many events the filter means. It counts up to Limit of
// them if that is not 0: of all aggregates, counting reads the inbox.
func (a *Admin) CountEvents(ctx context.Context, f EventFilter) (int, error) {
	if err := f.validate(); err != nil {
		return 0, err
	}
	var lane int64
	if f.AggregateID != "" {
		var err error
		if lane, err = a.laneID(ctx, f.AggregateID); err != nil {
			return 0, err
		}
	}
	q := f.conditions(lane)
	var n int
	sql := `select count(*) from (
	select from {schema}.inbox i
	where ` + strings.Join(q.where, " and ") + `
	limit nullif(` + q.arg(f.Limit) + `::bigint, 0)
) x`
	if err := a.db.QueryRow(ctx, a.in(sql), q.args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	return n, nil
}

func noEvent(id string) error {
	return notFound("there is no event %q in the inbox", id)
}
