package admin

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// facts are what the database says about one lane, from three sides: the lane,
// its events and its ledger.
type facts struct {
	id              int64
	name            string
	aggregate, lane bool // which of the two rows there is

	last            int64 // aggregates
	pending, parked bool

	cursor     int64 // lanes
	generation int32
	segment    int32
	state      State
	dated      bool // has the time of its next attempt
	explained  bool // has an error, whole
	accounted  bool // says who paused it and why

	first, end *int64 // inbox: the first and the last position
	counted    int64
	broken     bool   // positions are missing in between, or doubled
	hidden     *int64 // the last position in a segment that the lane no longer reads
	strange    bool   // holds another aggregate's event
	misnamed   bool   // the two rows have different names

	runsFrom, runsTo, newest *int64 // runs: the first and the last position; the last of the newest generation
	newestGeneration         *int32
	jumped                   *int64 // the first position that a replay passed over
	early                    *int64 // the first position of a replay that ran before what it repeats
}

func (f *facts) dest() []any {
	return []any{&f.id, &f.name, &f.aggregate, &f.lane, &f.last, &f.pending, &f.parked,
		&f.cursor, &f.generation, &f.segment, &f.state, &f.dated, &f.explained, &f.accounted,
		&f.first, &f.end, &f.counted, &f.broken, &f.hidden, &f.strange, &f.misnamed,
		&f.runsFrom, &f.runsTo, &f.newest, &f.newestGeneration, &f.jumped, &f.early}
}

// lanes audits every lane for itself.
func (v *verifier) lanes(ctx context.Context) error {
	var f facts
	dest := f.dest()
	return v.each(ctx, verifyLanesSQL, func(rows pgx.Rows) error {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		v.report.Events += f.counted
		if f.aggregate {
			v.report.Aggregates++
		}
		if f.broken {
			v.broken = append(v.broken, f.id)
		}
		if f.strange {
			v.strange = append(v.strange, f.id)
		}
		v.judge(&f)
		return nil
	}, v.lane, v.since)
}

// found adds a violation of a lane. A position of 0 is none.
func (v *verifier) found(f *facts, kind Kind, position int64, format string, args ...any) {
	x := Violation{Kind: kind, AggregateID: f.name, Detail: fmt.Sprintf(format, args...), lane: f.id}
	if position > 0 {
		x.Position = &position
	}
	v.add(x)
}

func (v *verifier) judge(f *facts) {
	if !f.aggregate || !f.lane {
		v.judgeOrphan(f)
		return
	}
	if f.misnamed {
		v.found(f, WrongLane, 0, "the lane's row is that of another aggregate")
	}
	v.judgeEvents(f)
	v.judgeCursor(f)
	if f.newest != nil {
		v.judgeLedger(f)
	}
	v.judgeStop(f)
}

func (v *verifier) judgeOrphan(f *facts) {
	switch {
	case f.aggregate:
		v.found(f, Orphan, 0, "the aggregate has no row in lanes, so that its events never run")
	case f.lane:
		v.found(f, Orphan, 0, "the lane has no row in aggregates, so that it can get no events")
	case f.first != nil:
		v.found(f, Orphan, *f.first, "the inbox has %s of a lane %d that does not exist", events(*f.first, *f.end), f.id)
	default:
		v.found(f, Orphan, *f.runsFrom, "the ledger has runs of %s of a lane %d that does not exist", events(*f.runsFrom, *f.runsTo), f.id)
	}
}

// judgeEvents looks at both ends of what is stored; what is missing in between is
// found by gaps. Retention may have removed a lane's first events, or all, as
// far as they are processed.
func (v *verifier) judgeEvents(f *facts) {
	gone := int64(0) // positions up to this one may be gone
	if v.dropped {
		gone = f.cursor
	}
	if f.first == nil {
		if f.last > gone {
			v.found(f, Gap, gone+1, "missing from the inbox: %s", events(gone+1, f.last))
		}
		return
	}
	if *f.first > gone+1 {
		v.found(f, Gap, gone+1, "missing from the inbox: %s", events(gone+1, *f.first-1))
	}
	switch {
	case *f.end < f.last:
		v.found(f, TailMismatch, *f.end+1, "the last position given is %d, but the newest event in the inbox has %d", f.last, *f.end)
	case *f.end > f.last:
		v.found(f, TailMismatch, f.last+1, "the last position given is %d, but the inbox has events up to %d: positions would be given twice", f.last, *f.end)
	}
	if f.hidden != nil && *f.hidden > f.cursor {
		v.found(f, StoppedWithoutReason, f.cursor+1, "unprocessed events up to position %d are in segments before %d, where the lane does not look", *f.hidden, f.segment)
	}
}

// judgeCursor compares the lane's cursor with the ledger. A lane whose ledger is
// gone, by retention, has no event before its cursor either.
func (v *verifier) judgeCursor(f *facts) {
	if f.cursor > f.last {
		v.found(f, CursorAhead, f.cursor, "the cursor is at %d, but the last event is %d", f.cursor, f.last)
	}
	if f.newest == nil {
		if from := v.keptFrom(f); from <= f.cursor {
			v.found(f, CursorAhead, from, "the cursor is at %d, but the ledger has no run of this lane", f.cursor)
		}
		return
	}
	switch {
	case *f.newestGeneration > f.generation:
		v.found(f, CursorBehind, f.cursor+1, "the ledger has runs of generation %d, but the lane is in generation %d", *f.newestGeneration, f.generation)
	case *f.newestGeneration == f.generation && *f.newest > f.cursor:
		v.found(f, CursorBehind, f.cursor+1, "the cursor is at %d, but the ledger has runs up to %d: what would run again is %s", f.cursor, *f.newest, events(f.cursor+1, *f.newest))
	case *f.newestGeneration == f.generation && *f.newest < f.cursor:
		v.found(f, CursorAhead, *f.newest+1, "the cursor is at %d, but the ledger has runs up to %d: what never ran is %s", f.cursor, *f.newest, events(*f.newest+1, f.cursor))
	case *f.newestGeneration < f.generation && *f.runsTo < f.cursor: // a replay that has not run yet
		v.found(f, CursorAhead, *f.runsTo+1, "the cursor is at %d, but the ledger has runs up to %d: what never ran is %s", f.cursor, *f.runsTo, events(*f.runsTo+1, f.cursor))
	}
}

// judgeLedger looks at where the ledger begins, and where its generations do.
// That their runs follow each other is for ledger to see.
func (v *verifier) judgeLedger(f *facts) {
	if from := v.keptFrom(f); from <= f.cursor && from < *f.runsFrom {
		v.found(f, PassedOver, from, "no run covers %s: the ledger begins at %d", events(from, *f.runsFrom-1), *f.runsFrom)
	}
	if f.jumped != nil {
		v.found(f, PassedOver, *f.jumped, "no run covers event %d, and a replay begins after it", *f.jumped)
	}
	if f.early != nil {
		v.found(f, OutOfOrder, *f.early, "a replay that begins at %d has runs from before the runs that it repeats", *f.early)
	}
}

// keptFrom is the position from which on the ledger must have runs.
func (v *verifier) keptFrom(f *facts) int64 {
	switch {
	case !v.dropped:
		return 1
	case f.first != nil:
		return *f.first
	}
	return f.cursor + 1
}

// judgeStop looks for lanes that stand still and do not say why.
func (v *verifier) judgeStop(f *facts) {
	stopped := func(format string, args ...any) {
		v.found(f, StoppedWithoutReason, f.cursor+1, format, args...)
	}
	work := f.last > f.cursor
	if work && !f.pending {
		stopped("%s, but the lane is not marked as pending, so that the sweep passes it by", waiting(f))
	}
	switch f.state {
	case Ready:
		if work && f.parked {
			stopped("%s and the lane is ready, but it is parked, so that the sweep passes it by", waiting(f))
		}
		return
	case Paused:
		if !f.accounted {
			stopped("the lane is paused, but it is not on record by whom and why")
		}
		return
	case Backoff:
		if !f.dated {
			stopped("the lane backs off, but has no time for its next attempt")
		}
	}
	if f.state != Waiting && !f.explained {
		stopped("the lane is %s, but no error is on record", f.state)
	}
	if !work {
		stopped("the lane is %s, but every event of it is processed", f.state)
	}
}

func waiting(f *facts) string {
	return count(f.last-f.cursor, "event is unprocessed", "events are unprocessed")
}

// span names positions.
func span(first, last int64) string {
	if first == last {
		return fmt.Sprintf("%d", first)
	}
	return fmt.Sprintf("%d to %d", first, last)
}

// events names the events at positions.
func events(first, last int64) string {
	if first == last {
		return "event " + span(first, last)
	}
	return "events " + span(first, last)
}
