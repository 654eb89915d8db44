package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// overtakenSQL finds the latest event of the aggregate that came after the
// record. It reads the lane from its end, by the primary key of the inbox, to
// its beginning if there is none.
const overtakenSQL = `select i.event_id
from {schema}.inbox i
where i.lane_id = (select a.lane_id from {schema}.aggregates a where a.aggregate_id = $1)
	and i.event_id <> $2
	and case when $3::text is null then i.source_topic is null and i.received_at > $6
		else i.source_topic = $3 and i.source_partition = $4 and i.source_offset > $5 end
order by i.position desc
limit 1`

// noteOvertaken says that the record lost its place, if it did.
func (a *Admin) noteOvertaken(ctx context.Context, tx pgx.Tx, how Requeueing, d *QuarantinedDetail, r *Requeued) error {
	s := d.Source
	if s == nil {
		s = &Source{}
	}
	var later string
	err := tx.QueryRow(ctx, a.in(overtakenSQL), r.AggregateID, r.EventID, nullIf(s.Topic, ""), s.Partition, s.Offset, d.ReceivedAt).Scan(&later)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for events that came after it: %w", err)
	}
	if r.OutOfOrder = true; how.OutOfOrder {
		return nil
	}
	return &OutOfOrderError{
		RefusedError: RefusedError{r.AggregateID, fmt.Sprintf(
			"record %d lost its place: the aggregate %q has moved on to %s, which came after it, and %s would run behind that",
			r.ID, r.AggregateID, later, r.EventID)},
		ID: r.ID,
	}
}

// OutOfOrderError says that a record of the quarantine was left there because it
// lost its place among the events of its aggregate. It is ErrRefused.
type OutOfOrderError struct {
	RefusedError
	// ID is the record's.
	ID int64
}

// Unwrap is the RefusedError.
func (e *OutOfOrderError) Unwrap() error { return &e.RefusedError }
