package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// LaneDetail is a lane with what waits in it and what happened to it.
type LaneDetail struct {
	Lane
	// Events are the head and those right behind it, at most 20.
	Events []Event `json:"events"`
	// History has the head's failed attempts and the lane's latest runs, at most
	// 20 of each, in the order of time.
	History []HistoryEntry `json:"history"`
	// Audit has the latest changes by operators, at most 20, in the order of
	// time.
	Audit []AuditEntry `json:"audit"`
	// Changes were recorded while a handler ran, and are made when it is done.
	Changes []PendingChange `json:"changes"`
	// Replay is how far a replay has come; nil: none is under way.
	Replay *ReplayProgress `json:"replay"`
}

// ReplayProgress is how far a replay has come.
type ReplayProgress struct {
	// FromPosition to LastPosition are the events that run again.
	FromPosition int64 `json:"from_position"`
	LastPosition int64 `json:"last_position"`
	// Position is that of the last one that did; FromPosition - 1: none yet.
	Position int64 `json:"position"`
}

// HistoryEntry is one thing that happened to a lane.
type HistoryEntry struct {
	At time.Time `json:"at"`
	// Outcome is processed, skipped, failed, or died: the attempt's process or
	// its connection ended before the attempt did.
	Outcome string `json:"outcome"`
	// FirstPosition to LastPosition are the events.
	FirstPosition int64 `json:"first_position"`
	LastPosition  int64 `json:"last_position"`
	// Attempt is which attempt failed; nil for runs that did not.
	Attempt     *int    `json:"attempt"`
	Message     *string `json:"message"`
	Fingerprint *string `json:"fingerprint"`
	// Detail of a failure: SQLSTATE, types of the error, stack of a panic.
	Detail json.RawMessage `json:"detail"`
	// ProcessID is the process that ran it; 0: none, an operator.
	ProcessID int32 `json:"process_id"`
}

// The outcomes of a HistoryEntry.
const (
	Processed = "processed"
	Skipped   = "skipped"
	Failed    = "failed"
	Died      = "died"
)

// AuditEntry is one change by an operator. Its JSON is stable.
type AuditEntry struct {
	ID          int64           `json:"id"`
	At          time.Time       `json:"at"`
	Actor       string          `json:"actor"`
	Action      string          `json:"action"`
	AggregateID *string         `json:"aggregate_id"`
	EventID     *string         `json:"event_id"`
	Reason      *string         `json:"reason"`
	Detail      json.RawMessage `json:"detail"`
}

// shown is how many of each a LaneDetail has.
const shown = 20

const (
	// By the primary key of the inbox.
	followersSQL = `select ` + eventColumnsSQL + `
from {schema}.events e
where e.lane_id = $1 and e.position > $2
order by e.position
limit $3`

	// By the primary key of runs, backwards, and the index failures_event.
	historySQL = `select at, case kind when 's' then 'skipped' else 'processed' end,
	first_position, last_position, null::integer, null::text, null::text, null::jsonb, process_id
from (select * from {schema}.runs where lane_id = $1 order by generation desc, last_position desc limit $3) r
union all
select at, case when crash then 'died' else 'failed' end,
	position, position, attempt, message, fingerprint, detail, process_id
from (select * from {schema}.failures where lane_id = $1 and position = $2 + 1 order by failure_id desc limit $3) f`

	// By the index audit_aggregate, backwards.
	laneAuditSQL = `select id, at, actor, action, aggregate_id, event_id, reason, detail
from {schema}.audit
where aggregate_id = $1
order by id desc
limit $2`

	// By the primary key of runs.
	replayBeganSQL = `select first_position from {schema}.runs
where lane_id = $1 and generation = $2
order by last_position
limit 1`
)

// Lane looks at one lane.
func (a *Admin) Lane(ctx context.Context, aggregate string) (*LaneDetail, error) {
	var d LaneDetail
	err := a.read(ctx, func(tx pgx.Tx) error {
		var err error
		if d.Lane, err = a.laneByName(ctx, tx, aggregate); err != nil {
			return err
		}
		if d.Events, err = collect(ctx, tx, func(row pgx.CollectableRow) (Event, error) { return scanEvent(row) },
			a.in(followersSQL), d.id, d.cursor, shown); err != nil {
			return err
		}
		if d.History, err = collect(ctx, tx, scanHistory, a.in(historySQL), d.id, d.cursor, shown); err != nil {
			return err
		}
		if d.Audit, err = collect(ctx, tx, scanAudit, a.in(laneAuditSQL), aggregate, shown); err != nil {
			return err
		}
		if d.Changes, err = collect(ctx, tx, scanPending, a.in(pendingSQL), d.id); err != nil {
			return err
		}
		d.Replay, err = a.replayProgress(ctx, tx, &d.Lane)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read the lane of %q: %w", aggregate, err)
	}
	slices.SortStableFunc(d.History, func(x, y HistoryEntry) int { return x.At.Compare(y.At) })
	slices.SortFunc(d.Audit, func(x, y AuditEntry) int { return cmp.Compare(x.ID, y.ID) })
	return &d, nil
}

// replayProgress looks how far a lane's replay has come. It begins where the
// first run of its generation does.
func (a *Admin) replayProgress(ctx context.Context, tx pgx.Tx, l *Lane) (*ReplayProgress, error) {
	if l.replayedTo <= l.cursor {
		return nil, nil
	}
	p := &ReplayProgress{FromPosition: l.cursor + 1, LastPosition: l.replayedTo, Position: l.cursor}
	err := tx.QueryRow(ctx, a.in(replayBeganSQL), l.id, l.generation).Scan(&p.FromPosition)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	return p, nil
}

func (a *Admin) laneByName(ctx context.Context, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, aggregate string) (Lane, error) {
	if !storable(aggregate) {
		return Lane{}, noAggregate(aggregate)
	}
	l, err := scanLane(db.QueryRow(ctx, a.in(laneByNameSQL), aggregate))
	if errors.Is(err, pgx.ErrNoRows) {
		return Lane{}, noAggregate(aggregate)
	}
	return l, err
}

// collect reads all rows of a query; none is an empty list, not nil.
func collect[T any](ctx context.Context, db interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.AppendRows([]T{}, rows, scan)
}

func scanHistory(row pgx.CollectableRow) (HistoryEntry, error) {
	var h HistoryEntry
	err := row.Scan(&h.At, &h.Outcome, &h.FirstPosition, &h.LastPosition,
		&h.Attempt, &h.Message, &h.Fingerprint, (*[]byte)(&h.Detail), &h.ProcessID)
	h.At = h.At.UTC()
	return h, err
}

func scanAudit(row pgx.CollectableRow) (AuditEntry, error) {
	var e AuditEntry
	err := row.Scan(&e.ID, &e.At, &e.Actor, &e.Action, &e.AggregateID, &e.EventID, &e.Reason, (*[]byte)(&e.Detail))
	e.At = e.At.UTC()
	return e, err
}
