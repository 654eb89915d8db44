package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

const (
	// By the primary key. Its lock keeps other operators out, and ingest that
	// gets the same record once more.
	lockQuarantinedSQL = `select id from {schema}.quarantine where id = $1 for update`

	// It leaves out, rather than waits for, what somebody else is changing.
	lockQuarantinedPageSQL = `select id from {schema}.quarantine where id = any($1) order by id for update skip locked`

	// quarantineTraceSQL is what is left of a record that leaves quarantine.
	quarantineTraceSQL = `jsonb_build_object('id', q.id, 'topic', q.source_topic, 'partition', q.source_partition,
		'offset', q.source_offset, 'reason', q.reason, 'size', coalesce(octet_length(q.value), 0),
		'sha256', encode(sha256(q.value), 'hex'))`

	// who() is described in the migrations.
	discardSQL = `with gone as (
	delete from {schema}.quarantine where id = any($1) returning *
)
insert into {schema}.audit (actor, action, reason, detail)
select {schema}.who($2), 'discard', $3, ` + quarantineTraceSQL + `
from gone q
order by q.id`
)

// Discard removes records from quarantine for good. What is left of each is a row
// of the audit: where it came from, why it was in quarantine, its size and the
// SHA-256 of its value. By.Reason is needed. Each record is a transaction.
//
// It goes on after a record that does not exist or that somebody else is
// changing, and ends at any other error. It answers the ids of the discarded in
// any case, and all errors joined.
func (a *Admin) Discard(ctx context.Context, by By, ids ...int64) ([]int64, error) {
	if err := needReason(by, "discard records"); err != nil {
		return nil, err
	}
	var done []int64
	var failed []error
	for _, id := range inOrder(ids) {
		err := a.change(ctx, func(tx pgx.Tx) error {
			if err := a.lockQuarantined(ctx, tx, id); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, a.in(discardSQL), []int64{id}, cleaned(by.Actor), cleaned(by.Reason))
			return err
		})
		switch {
		case err == nil:
			done = append(done, id)
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrRefused):
			failed = append(failed, err)
		default:
			return done, errors.Join(append(failed, fmt.Errorf("discard record %d: %w", id, err))...)
		}
	}
	return done, errors.Join(failed...)
}

// needReason says that a change which destroys or alters something needs one.
func needReason(by By, what string) error {
	if by.Reason == "" {
		return invalid("to %s takes a reason, which stays on record", what)
	}
	return nil
}

func (a *Admin) lockQuarantined(ctx context.Context, tx pgx.Tx, id int64) error {
	err := tx.QueryRow(ctx, a.in(lockQuarantinedSQL), id).Scan(&id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return notFound("there is no record %d in quarantine", id)
	case sqlState(err) == lockNotAvailable:
		return quarantineBusy(id)
	}
	return err
}

func quarantineBusy(id int64) error {
	return refused("", "record %d could not be changed: for %s somebody else was changing it", id, lockWait)
}

// QuarantineProgress says how far a change of many records has come.
type QuarantineProgress struct {
	// Done records left quarantine.
	Done int
	// Left records are there as before: somebody else was changing them, or they
	// still cannot be events.
	Left int
}

// DiscardAll discards every record that Quarantine would list for the filter, in
// its order: those that were in quarantine when it began. Up to
// PageSize records share a transaction. After each one progress is called, unless
// it is nil. Interrupted, it leaves the rest as it is.
func (a *Admin) DiscardAll(ctx context.Context, by By, f QuarantineFilter, progress func(QuarantineProgress)) (QuarantineProgress, error) {
	var p QuarantineProgress
	if err := needReason(by, "discard records"); err != nil {
		return p, err
	}
	err := a.quarantinePages(ctx, f, func(page []Quarantined) error {
		ids := make([]int64, len(page))
		for i, q := range page {
			ids[i] = q.ID
		}
		done, err := a.discardPage(ctx, by, ids)
		if err != nil {
			return fmt.Errorf("discard %d records: %w", len(ids), err)
		}
		p.Done, p.Left = p.Done+done, p.Left+len(ids)-done
		if progress != nil {
			progress(p)
		}
		return nil
	})
	return p, err
}

func (a *Admin) discardPage(ctx context.Context, by By, ids []int64) (done int, err error) {
	err = a.change(ctx, func(tx pgx.Tx) error {
		locked, err := collect(ctx, tx, pgx.RowTo[int64], a.in(lockQuarantinedPageSQL), ids)
		if done = len(locked); err != nil || done == 0 {
			return err
		}
		_, err = tx.Exec(ctx, a.in(discardSQL), locked, cleaned(by.Actor), cleaned(by.Reason))
		return err
	})
	return done, err
}
