package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Change is one lane that an operator changed, or wanted to. Its JSON is stable.
type Change struct {
	AggregateID string `json:"aggregate_id"`
	Action      Action `json:"action"`
	// Status says whether it was done.
	Status Status `json:"status"`
	// EventID and EventType are the lane's head when it was changed, or the
	// event from which it is replayed; nil: it has no unprocessed event.
	EventID   *string `json:"event_id"`
	EventType *string `json:"event_type"`
	// Detail says why it was not done; nil: it was.
	Detail *string `json:"detail"`
	// Trial is what became of a lane that was retried before the others; nil: it
	// was not. See Bulk.Canary.
	Trial *Trial `json:"trial"`

	lane, cursor int64
}

// Status says whether a change was done.
type Status string

// The statuses.
const (
	// Done is on record, together with its audit row.
	Done Status = "done"
	// Recorded waits for the running handler to end; the worker that has the
	// lane makes it then. If it does not fit any more, the audit says so.
	Recorded Status = "recorded"
	// Refused was not done: Change.Detail says why.
	Refused Status = "refused"
	// NotFound was not done, because there is no such aggregate.
	NotFound Status = "not_found"
)

// refusal is the sentence for why change() did nothing. It looks at the lane as
// it is now.
func (a *Admin) refusal(ctx context.Context, tx pgx.Tx, c Action, seen *Lane, why string) error {
	now, err := a.laneByName(ctx, tx, seen.AggregateID)
	if err != nil {
		return err
	}
	switch why {
	case "moved":
		return seen.movedOn()
	case "gone":
		return refused(seen.AggregateID, "the event to replay the lane of %q from is no longer in the inbox", seen.AggregateID)
	}
	if err := now.Can(c); err != nil {
		return err
	}
	return refused(seen.AggregateID, "the lane of %q has nothing to %s", seen.AggregateID, c)
}

// change is what was done to the lane.
func (l *Lane) change(c Action, status Status) Change {
	done := Change{AggregateID: l.AggregateID, Action: c, Status: status, lane: l.id, cursor: l.cursor}
	if l.Head != nil {
		done.EventID, done.EventType = &l.Head.EventID, &l.Head.EventType
	}
	return done
}

// notDone is a change that was not made because of err.
func notDone(aggregate string, c Action, err error) Change {
	detail := strings.TrimSpace(err.Error())
	status := Refused
	if errors.Is(err, ErrNotFound) {
		status = NotFound
	}
	return Change{AggregateID: aggregate, Action: c, Status: status, Detail: &detail}
}
