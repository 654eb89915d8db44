package inbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrNotFound is returned when no event has the id that is looked for, or no event
// of the aggregate was ever stored.
var ErrNotFound = errors.New("not found")

// StoredEvent is an event of the inbox and what has become of it.
type StoredEvent struct {
	Event
	// ProcessedAt is when the event took effect, or was skipped; zero while it
	// is unprocessed.
	ProcessedAt time.Time
	// SkippedAt is when it was skipped; zero if it was not.
	SkippedAt time.Time
	// Attempts counts how often its handler was started, the successful run
	// included.
	Attempts int
	// EditedAt is when an operator put another payload in the place of Payload,
	// which is as it came; zero if nobody did.
	EditedAt time.Time
	// EditedPayload is what handlers get in place of Payload if it was edited.
	EditedPayload []byte
}

const storedColumnsSQL = `event_id, aggregate_id, event_type, sequence, payload, headers,
	source_topic, source_partition, source_offset, occurred_at, position, received_at,
	processed_at, skipped_at, attempts, edited_at, edited_payload`

const (
	// By the unique constraint on the inbox, in each of its segments.
	findSQL = `select ` + storedColumnsSQL + ` from {schema}.find_event($1)`
	// By the unique constraint on aggregates.
	laneIDSQL = `select lane_id from {schema}.aggregates where aggregate_id = $1`
	// By the primary key of the inbox.
	laneSQL = `select ` + storedColumnsSQL + ` from {schema}.lane_events($1, $2, $3, $4)`
)

// A page of a lane holds so many events, and so many bytes of payload or a single
// event.
const (
	pageEvents = 200
	pageBytes  = 4 << 20
)

// Find looks an event up by its id. It is ErrNotFound if there is none, or none
// any more.
func (s *Store) Find(ctx context.Context, id string) (*StoredEvent, error) {
	if err := s.usable(); err != nil {
		return nil, fmt.Errorf("find event %.100q: %w", id, err)
	}
	if checkName("event_id", id) != nil { // nothing is stored under such an id
		return nil, fmt.Errorf("find event %.100q: %w", id, ErrNotFound)
	}
	e, err := scanStored(s.db.QueryRow(ctx, s.sql.find, id))
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("find event %.100q: %w", id, s.unmigrated(err))
	}
	return &e, nil
}

// Lane lists an aggregate's events in the order of their positions, from position
// from on; 0 is from the first. Events that retention has dropped are not there.
// It is ErrNotFound if no event of the aggregate was ever stored, and ends at the
// first error.
//
// Events are read in pages of at most 200 events and 4 MiB of payload, each page
// in a statement of its own, so that a slow loop holds no connection and no
// snapshot; an event that is stored meanwhile is at the end.
func (s *Store) Lane(ctx context.Context, aggregateID string, from int64) iter.Seq2[StoredEvent, error] {
	return func(yield func(StoredEvent, error) bool) {
		lane, err := s.laneID(ctx, aggregateID)
		for err == nil {
			var page []StoredEvent
			if page, err = s.page(ctx, lane, from); len(page) == 0 {
				break
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			from = page[len(page)-1].Position + 1
		}
		if err != nil {
			yield(StoredEvent{}, fmt.Errorf("read the lane of %.100q: %w", aggregateID, s.unmigrated(err)))
		}
	}
}

func (s *Store) laneID(ctx context.Context, aggregateID string) (lane int64, err error) {
	if err := s.usable(); err != nil {
		return 0, err
	}
	if checkName("aggregate_id", aggregateID) != nil {
		return 0, ErrNotFound
	}
	err = s.db.QueryRow(ctx, s.sql.laneID, aggregateID).Scan(&lane)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return lane, err
}

func (s *Store) page(ctx context.Context, lane, from int64) ([]StoredEvent, error) {
	rows, err := s.db.Query(ctx, s.sql.lane, lane, from, pageEvents, int64(pageBytes))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (StoredEvent, error) { return scanStored(row) })
}

// scanStored reads a row of storedColumnsSQL.
func scanStored(row pgx.Row) (StoredEvent, error) {
	var e StoredEvent
	var headers []byte
	var topic *string
	var partition *int32
	var offset *int64
	var processed, skipped, edited *time.Time
	err := row.Scan(&e.ID, &e.AggregateID, &e.Type, &e.Sequence, &e.Payload, &headers,
		&topic, &partition, &offset, &e.OccurredAt, &e.Position, &e.ReceivedAt,
		&processed, &skipped, &e.Attempts, &edited, &e.EditedPayload)
	if err != nil {
		return StoredEvent{}, err
	}
	e.Source = Source{Topic: orZero(topic), Partition: orZero(partition), Offset: orZero(offset)}
	e.OccurredAt, e.ReceivedAt = e.OccurredAt.UTC(), e.ReceivedAt.UTC()
	e.ProcessedAt, e.SkippedAt, e.EditedAt = orZero(processed).UTC(), orZero(skipped).UTC(), orZero(edited).UTC()
	e.Headers, err = DecodeHeaders(headers)
	return e, err
}

func orZero[T any](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}

// LaneCounts says how many lanes have each state. A lane is counted once.
type LaneCounts struct {
	// Idle lanes have no unprocessed event.
	Idle int64
	// Ready lanes run as soon as a worker is free.
	Ready int64
	// Running lanes have a handler that had been running for a while when its
	// process was last heard of; lanes whose handlers are quick are Ready.
	Running int64
	// Backoff lanes wait for their head's next attempt.
	Backoff int64
	// Waiting lanes wait for the next event of their sequence.
	Waiting int64
	// Stuck lanes wait for a person.
	Stuck int64
	// Paused lanes wait until they are resumed.
	Paused int64
}

// countsSQL reads indexes only; see lane_counts() in the migrations.
const countsSQL = `select idle, ready, running, backoff, waiting, stuck, paused from {schema}.lane_counts()`

// CountLanes counts the lanes by state, in one snapshot. It costs an index entry
// for each lane in backoff, waiting, stuck or paused, a look at two rows for each
// that can run, and an index entry for every lane that there is, for the idle
// ones: with a million lanes that is a matter of a minute's metrics, not of every
// request. Package admin counts the lanes of one state alone.
func (s *Store) CountLanes(ctx context.Context) (c LaneCounts, err error) {
	if err = s.usable(); err == nil {
		err = s.db.QueryRow(ctx, s.sql.counts).
			Scan(&c.Idle, &c.Ready, &c.Running, &c.Backoff, &c.Waiting, &c.Stuck, &c.Paused)
	}
	if err != nil {
		return LaneCounts{}, fmt.Errorf("count lanes: %w", s.unmigrated(err))
	}
	return c, nil
}
