package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
)

// Retried says which head was put back to work.
type Retried struct {
	AggregateID string
	EventID     string
	EventType   string
}

// Retry has the heads of lanes that are stuck or backing off run again now,
// their attempts counted from zero; what is stored of failed attempts stays. Each
// lane is changed, and its audit row written, in a transaction of its own.
//
// It goes on after a lane that does not exist or that has nothing to retry, and
// ends at any other error. It answers what was done in any case, and all errors
// joined.
func (a *Admin) Retry(ctx context.Context, by By, targets ...Target) ([]Retried, error) {
	var done []Retried
	var failed []error
	for _, t := range targets {
		r, err := a.retryLane(ctx, by, t)
		switch {
		case err == nil:
			done = append(done, r)
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrRefused):
			failed = append(failed, err)
		default:
			return done, errors.Join(append(failed, err)...)
		}
	}
	return done, errors.Join(failed...)
}

func (a *Admin) retryLane(ctx context.Context, by By, t Target) (Retried, error) {
	l, err := a.seen(ctx, t)
	if err != nil {
		return Retried{}, err
	}
	if err := l.CanRetry(); err != nil {
		return Retried{}, err
	}
	err = a.changeLane(ctx, &l, func(tx pgx.Tx) error { return a.release(ctx, tx, by, []int64{l.id}) })
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrNotFound):
		return Retried{}, err
	case sqlState(err) == lockNotAvailable:
		return Retried{}, refused(t.AggregateID, "the lane of %q could not be changed: for %s somebody was storing events of it", t.AggregateID, lockWait)
	case err != nil:
		return Retried{}, fmt.Errorf("retry the lane of %q: %w", t.AggregateID, err)
	}
	r := Retried{AggregateID: l.AggregateID}
	if l.Head != nil {
		r.EventID, r.EventType = l.Head.EventID, l.Head.EventType
	}
	return r, nil
}

// CanRetry says, with a RefusedError, why the lane has nothing to retry; nil: it
// has.
func (l *Lane) CanRetry() error {
	refuse := func(format string, args ...any) error {
		return refused(l.AggregateID, "the lane of %q has nothing to retry: %s", l.AggregateID, fmt.Sprintf(format, args...))
	}
	switch {
	case l.stored == Stuck || l.stored == Backoff:
		return nil
	case l.State == Idle:
		return refuse("every event of it was processed or skipped")
	case l.State == Running:
		return refuse("its head %s is running", l.headWords())
	case l.State == Ready:
		return refuse("it is not held, its head %s runs as soon as a worker is free", l.headWords())
	case l.State == Paused:
		return refuse("it is paused, and runs when it is resumed")
	}
	return refuse("it waits for the next event of its sequence")
}

// release puts locked lanes back to work, on record.
func (a *Admin) release(ctx context.Context, tx pgx.Tx, by By, lanes []int64) error {
	if _, err := tx.Exec(ctx, a.in(auditSQL), cleaned(by.Actor), "retry", cleaned(by.Reason), lanes); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, a.in(releaseSQL), lanes)
	return err
}

// Progress says how far a change of many lanes has come.
type Progress struct {
	// Done lanes were changed.
	Done int
	// Left lanes were no longer as the filter said when their turn came, or
	// somebody else was changing them; they are as they were.
	Left int
}

// retryStates are the states that can be retried; lanes in any other have
// nothing to retry.
var retryStates = []State{Stuck, Backoff}

func (f Filter) retryable() selection { return selection{Filter: f, states: retryStates} }

// CountRetryable answers how many lanes RetryAll would retry now.
func (a *Admin) CountRetryable(ctx context.Context, f Filter) (int, error) {
	return a.count(ctx, f.retryable())
}

// Retryable lists the lanes that RetryAll would retry now, as Lanes does.
func (a *Admin) Retryable(ctx context.Context, f Filter) iter.Seq2[Lane, error] {
	return a.each(ctx, f.retryable())
}

const nowSQL = `select clock_timestamp()`

// RetryAll retries every lane that the filter means and that is stuck or backing
// off, up to Filter.Limit: those that were so when it began, each once. Up to
// PageSize lanes share a transaction. After each one progress is called, unless
// it is nil.
//
// Interrupted, it leaves the rest as it is; what it did stays done, so that the
// same call again goes on.
func (a *Admin) RetryAll(ctx context.Context, by By, f Filter, progress func(Progress)) (Progress, error) {
	var p Progress
	var began time.Time
	if err := a.db.QueryRow(ctx, nowSQL).Scan(&began); err != nil {
		return p, fmt.Errorf("retry lanes: %w", err)
	}
	s := f.retryable()
	s.before = began // or a lane that fails again at once would be met again
	left := f.Limit
	for {
		size := PageSize
		if f.Limit > 0 {
			size = min(left, PageSize)
		}
		lanes, next, err := a.page(ctx, s, size)
		if err != nil {
			return p, err
		}
		done, err := a.retryPage(ctx, by, lanes)
		if err != nil {
			return p, fmt.Errorf("retry %d lanes: %w", len(lanes), err)
		}
		p.Done, p.Left = p.Done+done, p.Left+len(lanes)-done
		if progress != nil && len(lanes) > 0 {
			progress(p)
		}
		if left -= len(lanes); next == "" || left == 0 {
			return p, nil
		}
		s.After = next
	}
}

// lockLanesSQL locks those of the lanes that are as they were seen. It leaves
// out, rather than waits for, a lane that somebody else has locked: its handler
// runs, or another operator is changing it. By the primary key, in its order.
const lockLanesSQL = `select l.lane_id
from unnest($1::bigint[], $2::bigint[], $3::integer[]) s(lane_id, cursor, version)
join {schema}.lanes l on l.lane_id = s.lane_id
where l.cursor = s.cursor and l.version = s.version and l.state in ('stuck', 'backoff')
order by l.lane_id
for update of l skip locked`

func (a *Admin) retryPage(ctx context.Context, by By, lanes []Lane) (done int, err error) {
	if len(lanes) == 0 {
		return 0, nil
	}
	ids, cursors, versions := make([]int64, len(lanes)), make([]int64, len(lanes)), make([]int32, len(lanes))
	for i := range lanes {
		ids[i], cursors[i], versions[i] = lanes[i].id, lanes[i].cursor, lanes[i].version
	}
	err = a.change(ctx, func(tx pgx.Tx) error {
		locked, err := collect(ctx, tx, pgx.RowTo[int64], a.in(lockLanesSQL), ids, cursors, versions)
		if done = len(locked); err != nil || done == 0 {
			return err
		}
		return a.release(ctx, tx, by, locked)
	})
	return done, err
}
