package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

const (
	// By the unique constraint on the inbox, in each of its segments.
	eventSQL = `select ` + eventColumnsSQL + `, e.payload, e.edited_payload, d.actor, d.reason, e.lane_id
from {schema}.events e
left join {schema}.edits d on d.lane_id = e.lane_id and d.position = e.position
where e.event_id = $1
order by e.segment desc
limit 1`

	// By the index failures_event, the latest first.
	eventFailuresSQL = `select f.attempt, f.at, f.message, f.fingerprint, f.detail, f.crash, f.process_id, p.name
from {schema}.failures f
left join {schema}.processes p on p.process_id = f.process_id
where f.lane_id = $1 and f.position = $2
order by f.failure_id desc
limit $3`
)

// Event looks an event up by its id.
func (a *Admin) Event(ctx context.Context, id string) (*EventDetail, error) {
	if !storable(id) {
		return nil, noEvent(id)
	}
	var d EventDetail
	err := a.read(ctx, func(tx pgx.Tx) error {
		lane, err := d.read(tx.QueryRow(ctx, a.in(eventSQL), id))
		if err != nil {
			return err
		}
		d.Failures, err = collect(ctx, tx, scanEventFailure, a.in(eventFailuresSQL), lane, d.Position, shown)
		slices.Reverse(d.Failures)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, noEvent(id)
	}
	if err != nil {
		return nil, fmt.Errorf("read event %q: %w", id, err)
	}
	return &d, nil
}

// read takes in a row of eventSQL, and answers the number of its lane.
func (d *EventDetail) read(row pgx.Row) (lane int64, err error) {
	var patched []byte
	var actor, reason *string
	d.Event, err = scanEvent(row, &d.Payload, &patched, &actor, &reason, &lane)
	if err != nil || d.EditedAt == nil || actor == nil {
		return lane, err
	}
	d.Payload, d.Original = patched, d.Payload
	d.Edit = &Edit{At: *d.EditedAt, Actor: *actor, Reason: *reason}
	return lane, nil
}

func scanEventFailure(row pgx.CollectableRow) (EventFailure, error) {
	var f EventFailure
	err := row.Scan(&f.Attempt, &f.At, &f.Message, &f.Fingerprint, (*[]byte)(&f.Detail), &f.Died, &f.ProcessID, &f.Process)
	f.At = f.At.UTC()
	return f, err
}
