package admin

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// PendingChange is a change that was recorded while a handler ran, and is made
// when it is done.
type PendingChange struct {
	ID     int64     `json:"id"`
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action Action    `json:"action"`
	// EventID is the head that it is for; nil: whatever the head is.
	EventID *string `json:"event_id"`
	// FromPosition is where a replay begins; nil: it is none.
	FromPosition *int64  `json:"from_position"`
	Reason       *string `json:"reason"`
}

func scanPending(row pgx.CollectableRow) (PendingChange, error) {
	var p PendingChange
	err := row.Scan(&p.ID, &p.At, &p.Actor, &p.Action, &p.EventID, &p.FromPosition, &p.Reason)
	p.At = p.At.UTC()
	return p, err
}
