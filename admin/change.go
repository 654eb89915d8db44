package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// lockWait is how long a change waits for a lane whose handler runs.
const lockWait = time.Second

const (
	lockWaitSQL = `select set_config('lock_timeout', $1, true)`

	// By the primary key. The row lock keeps workers and other operators out.
	lockLaneSQL = `select lane_id, cursor, version, generation, state from {schema}.lanes where lane_id = $1 for update`

	// By the primary key, backwards.
	lastAuditSQL = `select coalesce(max(id), 0) from {schema}.audit`

	// By the index audit_aggregate, backwards.
	lastChangeSQL = `select actor, action from {schema}.audit
where aggregate_id = $1 and id > $2 and action <> 'refused'
order by id desc
limit 1`
)

// locked is a lane as it is once its row is locked.
type locked struct {
	id         int64
	cursor     int64
	version    int32
	generation int32
	state      State
}

func scanLocked(row pgx.CollectableRow) (locked, error) {
	var l locked
	err := row.Scan(&l.id, &l.cursor, &l.version, &l.generation, &l.state)
	return l, err
}

// still reports that the lane is as it was seen, as far as the action asks. A
// pause is of the lane, whatever its head is; so is a replay, unless another one
// came between.
func (l *Lane) still(c Action, now locked) bool {
	switch c {
	case Pause:
		return true
	case Replay:
		return now.generation == l.generation
	}
	return now.cursor == l.cursor && now.version == l.version && now.generation == l.generation && now.state == l.stored
}

// compare refuses a change of a locked lane that another operator has changed,
// or whose head has moved, since it was seen; since is the last row of the audit
// then. A head that only ran and failed once more is still the one that was
// meant: change() decides about it.
func (a *Admin) compare(ctx context.Context, tx pgx.Tx, c Action, l *Lane, now locked, since int64) error {
	if l.still(c, now) {
		return nil
	}
	var actor, action string
	err := tx.QueryRow(ctx, a.in(lastChangeSQL), l.AggregateID, since).Scan(&actor, &action)
	switch {
	case err == nil:
		return refused(l.AggregateID, "the lane of %q was changed by somebody else meanwhile: %s by %s", l.AggregateID, action, actor)
	case !errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("read who changed the lane of %q: %w", l.AggregateID, err)
	case now.generation != l.generation:
		return refused(l.AggregateID, "the lane of %q was replayed meanwhile", l.AggregateID)
	case now.cursor != l.cursor:
		return l.movedOn()
	}
	return nil
}

func (l *Lane) movedOn() error {
	return refused(l.AggregateID, "the lane of %q has moved on meanwhile: %s was processed or skipped", l.AggregateID, l.headWords())
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
