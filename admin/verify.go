package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// VerifyOptions say what is audited. The zero VerifyOptions mean everything.
type VerifyOptions struct {
	// AggregateID is the one aggregate that is audited. Empty: all.
	AggregateID string
	// Since leaves out what happened before: only events received and runs
	// committed since then count, and are reported. What the lanes are now is
	// always audited. Zero: no matter when.
	Since time.Time
	// Limit is how many violations are kept; further ones are counted. 0: 1000.
	Limit int
}

// Report is what Verify found. Its JSON is stable.
type Report struct {
	// Aggregates and Events are how many were audited.
	Aggregates int64 `json:"aggregates"`
	Events     int64 `json:"events"`
	// Violations are in the order of aggregates and positions.
	Violations []Violation `json:"violations"`
	// More violations were found than were kept.
	More int64 `json:"-"`
}

// Violation is one thing that contradicts the order, with the evidence.
type Violation struct {
	Kind        Kind   `json:"kind"`
	AggregateID string `json:"aggregate_id"`
	// EventID is the event at Position; nil if it is not in the inbox.
	EventID  *string `json:"event_id"`
	Position *int64  `json:"position"`
	Detail   string  `json:"detail"`

	lane int64
}

// Kind is a kind of violation.
type Kind string

// The kinds.
const (
	// Gap: an event is missing from the inbox that was stored and that no
	// retention can have removed.
	Gap Kind = "gap"
	// DuplicatePosition: two events have one position.
	DuplicatePosition Kind = "duplicate-position"
	// DoubleEvent: an event id is stored twice.
	DoubleEvent Kind = "double-event"
	// WrongLane: an event is in the lane of another aggregate.
	WrongLane Kind = "wrong-lane"
	// TailMismatch: the last position that was given is not that of the newest
	// event.
	TailMismatch Kind = "tail-mismatch"
	// Overlap: the ledger has two runs of an event that was not replayed.
	Overlap Kind = "overlap"
	// PassedOver: the lane went on past an event that no run and no skip covers.
	PassedOver Kind = "passed-over"
	// OutOfOrder: a run was committed before the run of the events before it.
	OutOfOrder Kind = "out-of-order"
	// CursorBehind: the lane says that events are unprocessed that the ledger
	// says ran.
	CursorBehind Kind = "cursor-behind"
	// CursorAhead: the lane says that events are processed that never ran.
	CursorAhead Kind = "cursor-ahead"
	// SkipWithoutRecord: an event was skipped and the audit does not say by whom.
	SkipWithoutRecord Kind = "skip-without-record"
	// StoppedWithoutReason: a lane has unprocessed events that nothing will run,
	// or is held and does not say why.
	StoppedWithoutReason Kind = "stopped-without-reason"
	// Orphan: a lane lacks one of its two rows, or events or runs lack their lane.
	Orphan Kind = "orphan"
)

// Verify audits the order from what the database recorded, in one snapshot: that
// no event is missing, doubled, or in another's lane; that the ledger of runs,
// which is written in the transactions of the effects, covers each lane's events
// one after the other, once, as far as the lane's cursor says; and that no lane
// is stopped without a reason. It may run beside processes that store and run
// events.
//
// Its own memory is bounded by VerifyOptions.Limit, but for eight bytes a lane
// whose events are not whole. The server reads the inbox and the ledger a few
// times, and sorts on disk what exceeds a work_mem of 32 MB.
//
// Numbers given by producers are not looked at, nor whether a lane that can run
// does: its processes may be stopped. A server clock that was set back while
// events ran shows as OutOfOrder, with both times.
func (a *Admin) Verify(ctx context.Context, o VerifyOptions) (*Report, error) {
	v := &verifier{Admin: a, options: o, limit: o.Limit}
	if v.limit <= 0 {
		v.limit = 1000
	}
	if o.AggregateID != "" {
		id, err := a.laneID(ctx, o.AggregateID)
		if err != nil {
			return nil, err
		}
		v.lane = &id
	}
	if !o.Since.IsZero() {
		v.since = &o.Since
	}
	if err := a.read(ctx, func(tx pgx.Tx) error { return v.run(ctx, tx) }); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	slices.SortStableFunc(v.report.Violations, func(x, y Violation) int {
		return cmp.Or(cmp.Compare(x.AggregateID, y.AggregateID), cmp.Compare(at(x.Position), at(y.Position)))
	})
	return &v.report, nil
}

func at(position *int64) int64 {
	if position == nil {
		return 0
	}
	return *position
}

// verifier is one audit.
type verifier struct {
	*Admin
	options VerifyOptions
	limit   int
	lane    *int64     // the one that is audited
	since   *time.Time // only what happened since

	tx      pgx.Tx
	dropped bool    // the oldest events may be gone, by retention
	broken  []int64 // lanes whose positions are not dense
	strange []int64 // lanes with an event of another aggregate
	report  Report
}

func (v *verifier) run(ctx context.Context, tx pgx.Tx) error {
	v.tx = tx
	v.report.Violations = []Violation{}
	if _, err := tx.Exec(ctx, verifySettingsSQL); err != nil {
		return err
	}
	if v.lane != nil {
		if _, err := tx.Exec(ctx, byIndexSQL); err != nil {
			return err
		}
	}
	segments := 0
	if err := tx.QueryRow(ctx, v.in(segmentsSQL)).Scan(&segments, &v.dropped); err != nil {
		return err
	}
	steps := []func(context.Context) error{v.lanes, v.gaps, v.strangers, v.ledger, v.skips}
	if segments > 1 {
		steps = append(steps, v.doubles) // within a segment a constraint forbids them
	}
	for _, step := range append(steps, v.nameEvents) {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// add keeps a violation, or counts it.
func (v *verifier) add(x Violation) {
	if v.full() {
		v.report.More++
		return
	}
	v.report.Violations = append(v.report.Violations, x)
}

func (v *verifier) full() bool { return len(v.report.Violations) >= v.limit }

// each calls f for each row that a statement answers, as it comes.
func (v *verifier) each(ctx context.Context, sql string, f func(pgx.Rows) error, args ...any) error {
	rows, err := v.tx.Query(ctx, v.in(sql), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// nameEvents finds the events of the violations that were kept.
func (v *verifier) nameEvents(ctx context.Context) error {
	var lanes, positions []int64
	var index []int
	for i, x := range v.report.Violations {
		if x.EventID == nil && x.Position != nil {
			lanes, positions, index = append(lanes, x.lane), append(positions, *x.Position), append(index, i)
		}
	}
	if len(index) == 0 {
		return nil
	}
	return v.each(ctx, nameEventsSQL, func(rows pgx.Rows) error {
		var n int
		var id string
		if err := rows.Scan(&n, &id); err != nil {
			return err
		}
		if n < 1 || n > len(index) {
			return errors.New("the answer names an event that was not asked for")
		}
		v.report.Violations[index[n-1]].EventID = &id
		return nil
	}, lanes, positions)
}
