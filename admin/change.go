package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Target is a lane that is to be changed, and what was seen of it.
type Target struct {
	AggregateID string
	// EventID is the head that was seen: the change is refused if the lane has
	// another one by now. Empty: whatever the head is when the change begins.
	EventID string
}

// lockWait is how long a change waits for a lane whose handler runs.
const lockWait = time.Second

const (
	lockWaitSQL = `select set_config('lock_timeout', $1, true)`

	// By the primary key. The row lock keeps workers and other operators out.
	lockLaneSQL = `select cursor, version, state from {schema}.lanes where lane_id = $1 for update`

	auditSQL = `insert into {schema}.audit (actor, action, aggregate_id, event_id, reason, detail)
select session_user || coalesce('/' || nullif($1, ''), ''), $2, l.aggregate_id, h.event_id, nullif($3, ''),
	jsonb_build_object('state', l.state, 'attempts', l.attempts + l.crashes, 'fingerprint', l.error_fingerprint)
from {schema}.lanes l
` + headSQL + `
where l.lane_id = any($4)
order by l.lane_id`

	// release() is described in the migrations.
	releaseSQL = `select {schema}.release($1)`

	// By the index audit_aggregate, backwards.
	lastChangeSQL = `select actor, action from {schema}.audit
where aggregate_id = $1 and at > $2
order by id desc
limit 1`
)

// seen looks at the lane of a target before it is changed.
func (a *Admin) seen(ctx context.Context, t Target) (Lane, error) {
	l, err := a.laneByName(ctx, a.db, t.AggregateID)
	if errors.Is(err, ErrNotFound) {
		return Lane{}, err
	}
	if err != nil {
		return Lane{}, fmt.Errorf("read the lane of %q: %w", t.AggregateID, err)
	}
	if t.EventID != "" && (l.Head == nil || l.Head.EventID != t.EventID) {
		head := "it has no unprocessed event"
		if l.Head != nil {
			head = "its head is " + l.headWords()
		}
		return Lane{}, refused(t.AggregateID, "the lane of %q has moved on: %s, no longer %s", t.AggregateID, head, t.EventID)
	}
	return l, nil
}

// changeLane runs f with the lane locked, if it is as it was seen, and commits.
func (a *Admin) changeLane(ctx context.Context, l *Lane, f func(pgx.Tx) error) error {
	return a.change(ctx, func(tx pgx.Tx) error {
		var cursor int64
		var version int32
		var state State
		err := tx.QueryRow(ctx, a.in(lockLaneSQL), l.id).Scan(&cursor, &version, &state)
		switch {
		case sqlState(err) == lockNotAvailable:
			return refused(l.AggregateID, "the lane of %q could not be changed: for %s its handler ran, or somebody else was changing it", l.AggregateID, lockWait)
		case errors.Is(err, pgx.ErrNoRows):
			return noAggregate(l.AggregateID)
		case err != nil:
			return fmt.Errorf("lock the lane of %q: %w", l.AggregateID, err)
		case cursor != l.cursor:
			return refused(l.AggregateID, "the lane of %q has moved on meanwhile: %s was processed or skipped", l.AggregateID, l.headWords())
		case version != l.version, state != l.stored:
			return a.changedMeanwhile(ctx, tx, l, state)
		}
		return f(tx)
	})
}

// changedMeanwhile says who was faster: another operator, or an attempt of the
// head that failed.
func (a *Admin) changedMeanwhile(ctx context.Context, tx pgx.Tx, l *Lane, now State) error {
	var actor, action string
	err := tx.QueryRow(ctx, a.in(lastChangeSQL), l.AggregateID, l.AsOf).Scan(&actor, &action)
	switch {
	case err == nil:
		return refused(l.AggregateID, "the lane of %q was changed by somebody else meanwhile: %s by %s", l.AggregateID, action, actor)
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("read who changed the lane of %q: %w", l.AggregateID, err)
	case now != l.stored:
		return refused(l.AggregateID, "the lane of %q changed meanwhile: it was %s and is %s now", l.AggregateID, l.stored, now)
	}
	return refused(l.AggregateID, "the lane of %q changed meanwhile: its head ran once more, or somebody else changed it", l.AggregateID)
}

// change runs f in a transaction that waits for no lock longer than lockWait,
// and runs it again when it met another transaction.
func (a *Admin) change(ctx context.Context, f func(pgx.Tx) error) error {
	var err error
	for range 5 {
		err = a.changeOnce(ctx, f)
		if s := sqlState(err); s != deadlock && s != serialization {
			break
		}
	}
	return err
}

func (a *Admin) changeOnce(ctx context.Context, f func(pgx.Tx) error) error {
	// Read committed: what is read after a lock was got is what is locked.
	tx, err := a.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // does nothing after a commit
	if _, err := tx.Exec(ctx, byIndexSQL); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, lockWaitSQL, fmt.Sprint(lockWait.Milliseconds())); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// SQLSTATEs of transactions that met.
const (
	lockNotAvailable = "55P03"
	deadlock         = "40P01"
	serialization    = "40001"
)

func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}
