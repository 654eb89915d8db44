package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Edited says what became of an edit.
type Edited struct {
	EventID     string
	AggregateID string
	EventType   string
	// Outcome says what was done.
	Outcome EditOutcome
	// NoLongerJSON warns that the original payload is JSON and the new one is not.
	NoLongerJSON bool
}

// EditOutcome is what became of an event's payload.
type EditOutcome string

// The outcomes.
const (
	// PayloadEdited: the event runs with the new payload.
	PayloadEdited EditOutcome = "edited"
	// PayloadReverted: the event runs with its own payload again.
	PayloadReverted EditOutcome = "reverted"
	// PayloadUnchanged: it would have run with this payload anyhow.
	PayloadUnchanged EditOutcome = "unchanged"
)

// Edit puts a payload in the place of an event's own, which stays beside it, while
// the event is unprocessed; a payload that is the event's own takes an earlier edit
// back. By.Reason is needed. What runs is never changed: the edit is refused while
// the handler of an event of the lane runs for longer than a second, and once the
// event was processed or skipped. The row of the edit stays then, as the record of
// what ran.
func (a *Admin) Edit(ctx context.Context, by By, eventID string, payload []byte) (Edited, error) {
	if err := needReason(by, "edit an event"); err != nil {
		return Edited{}, err
	}
	e, err := a.editable(ctx, eventID)
	if err != nil {
		return Edited{}, err
	}
	done := e.answer(PayloadEdited)
	done.NoLongerJSON = isJSON(e.original) && !isJSON(payload)
	switch {
	case bytes.Equal(payload, e.now()):
		done.Outcome = PayloadUnchanged
		return done, nil
	case bytes.Equal(payload, e.original):
		done.Outcome = PayloadReverted
		return done, a.edit(ctx, by, e, nil)
	}
	return done, a.edit(ctx, by, e, append([]byte{}, payload...)) // nil would revert
}

// Revert takes the edit of an event back, under the conditions of Edit.
func (a *Admin) Revert(ctx context.Context, by By, eventID string) (Edited, error) {
	e, err := a.editable(ctx, eventID)
	if err != nil {
		return Edited{}, err
	}
	if e.editedAt == nil {
		return Edited{}, e.notEdited()
	}
	return e.answer(PayloadReverted), a.edit(ctx, by, e, nil)
}

const (
	// By the unique constraint on the inbox, in each of its segments.
	editableSQL = `select e.event_id, e.aggregate_id, e.event_type, e.lane_id, e.position, e.payload, e.edited_payload,
	e.edited_at, e.processed_at, e.skipped_at, e.position = l.cursor + 1
from {schema}.events e
join {schema}.lanes l on l.lane_id = e.lane_id
where e.event_id = $1
order by e.segment desc
limit 1`

	// By the primary keys. The lock keeps workers and other operators out.
	lockEditSQL = `select l.lane_id from {schema}.lanes l where l.lane_id = $1 for update`
	lastEditSQL = `select at, actor from {schema}.edits where lane_id = $1 and position = $2`

	// edit() and who() are described in the migrations.
	editSQL = `select {schema}.edit($1, $2, $3, {schema}.who($4), $5)`
)

// editable is an event that may be edited, as it was seen.
type editable struct {
	id, aggregate, eventType string
	lane, position           int64
	original, patched        []byte
	editedAt                 *time.Time
	processedAt, skippedAt   *time.Time
	head                     bool
}

func (a *Admin) editable(ctx context.Context, id string) (*editable, error) {
	if !storable(id) {
		return nil, noEvent(id)
	}
	var e editable
	err := a.db.QueryRow(ctx, a.in(editableSQL), id).Scan(&e.id, &e.aggregate, &e.eventType, &e.lane, &e.position,
		&e.original, &e.patched, &e.editedAt, &e.processedAt, &e.skippedAt, &e.head)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, noEvent(id)
	case err != nil:
		return nil, fmt.Errorf("read event %q: %w", id, err)
	case e.skippedAt != nil:
		return nil, refused(e.aggregate, "event %q cannot be edited: it was skipped at %s", id, e.skippedAt.UTC().Format(time.RFC3339))
	case e.processedAt != nil:
		return nil, refused(e.aggregate, "event %q cannot be edited: it was processed at %s, and what it did stands", id, e.processedAt.UTC().Format(time.RFC3339))
	}
	return &e, nil
}

// now is the payload that the event runs with.
func (e *editable) now() []byte {
	if e.editedAt != nil {
		return e.patched
	}
	return e.original
}

func (e *editable) answer(o EditOutcome) Edited {
	return Edited{EventID: e.id, AggregateID: e.aggregate, EventType: e.eventType, Outcome: o}
}

func (e *editable) notEdited() error {
	return refused(e.aggregate, "event %q is not edited; there is nothing to revert", e.id)
}

// edit makes the change, if the event's edit is as it was seen; patched nil takes
// it back.
func (a *Admin) edit(ctx context.Context, by By, e *editable, patched []byte) error {
	err := a.change(ctx, func(tx pgx.Tx) error {
		var lane int64
		if err := tx.QueryRow(ctx, a.in(lockEditSQL), e.lane).Scan(&lane); err != nil {
			return err
		}
		if err := a.editedMeanwhile(ctx, tx, e); err != nil {
			return err
		}
		var why *string
		err := tx.QueryRow(ctx, a.in(editSQL), e.lane, e.position, patched, cleaned(by.Actor), nullIf(cleaned(by.Reason), "")).Scan(&why)
		if err != nil || why == nil {
			return err
		}
		return e.whyNot(*why)
	})
	switch {
	case err == nil, errors.Is(err, ErrRefused), errors.Is(err, ErrNotFound):
		return err
	case sqlState(err) == lockNotAvailable && e.head:
		return refused(e.aggregate, "event %q could not be edited: for %s it ran, or somebody else was changing its lane", e.id, lockWait)
	case sqlState(err) == lockNotAvailable:
		return refused(e.aggregate, "event %q could not be edited: for %s an event before it ran, or somebody else was changing its lane", e.id, lockWait)
	}
	return fmt.Errorf("edit event %q: %w", e.id, err)
}

// editedMeanwhile says who else edited the event since it was seen.
func (a *Admin) editedMeanwhile(ctx context.Context, tx pgx.Tx, e *editable) error {
	var at time.Time
	var actor string
	err := tx.QueryRow(ctx, a.in(lastEditSQL), e.lane, e.position).Scan(&at, &actor)
	switch {
	case errors.Is(err, pgx.ErrNoRows) && e.editedAt != nil:
		return refused(e.aggregate, "event %q was changed by somebody else meanwhile: its edit was taken back", e.id)
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	case e.editedAt == nil || !at.Equal(*e.editedAt):
		return refused(e.aggregate, "event %q was changed by somebody else meanwhile: edited by %s", e.id, actor)
	}
	return nil
}

// whyNot are the words for what edit() answers.
func (e *editable) whyNot(why string) error {
	switch why {
	case "gone":
		return noEvent(e.id)
	case "nothing":
		return e.notEdited()
	}
	return refused(e.aggregate, "event %q cannot be edited any more: it was processed or skipped meanwhile", e.id)
}
