package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// Requeueing says how records are given to the inbox once more.
type Requeueing struct {
	// Decode makes an event of a record, or says why it is none; it is that of the
	// inbox.Ingester that would take the record now. A record without a source did
	// not come from Kafka. Needed.
	Decode func(inbox.Record) (inbox.Event, error)
	// OutOfOrder stores also what lost its place: an event behind which others of
	// its aggregate should stand that were stored already.
	OutOfOrder bool
	// DryRun changes nothing, and answers what would happen.
	DryRun bool
}

// Requeued says what became of a record that left quarantine. Its JSON is stable.
type Requeued struct {
	ID int64 `json:"id"`
	// Outcome is stored, duplicate (its event is stored already) or ignored (events
	// of its type are not stored); empty: it is in quarantine as before.
	Outcome     string `json:"outcome"`
	EventID     string `json:"event_id"`
	AggregateID string `json:"aggregate_id"`
	EventType   string `json:"event_type"`
	// OutOfOrder says that it was stored behind events that came after it.
	OutOfOrder bool `json:"out_of_order"`
}

// Requeue gives records to the inbox once more, after what kept them from being
// events was put right. Each record is a transaction: what it becomes is stored,
// with the same guard against duplicates as ever, it leaves quarantine, and the
// audit says so. A record that still is no event stays, and so does one whose
// event id is stored with another content.
//
// An event that lost its place is refused unless Requeueing.OutOfOrder: its
// aggregate has events stored that came from the same partition at a higher
// offset or, if neither came from Kafka, that came later.
//
// Requeue goes on after a record that does not exist or that stays, and ends at
// any other error. It answers what left quarantine in any case, and all errors
// joined. The records are taken in the order in which they came, each once.
func (a *Admin) Requeue(ctx context.Context, by By, how Requeueing, ids ...int64) ([]Requeued, error) {
	var done []Requeued
	var failed []error
	for _, id := range inOrder(ids) {
		r, err := a.requeue(ctx, by, how, id)
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

// inOrder are the ids, each once.
func inOrder(ids []int64) []int64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// RequeueAll requeues every record that the filter means, up to
// QuarantineFilter.Limit, the oldest first: those that were in quarantine when it
// began. each, unless it is nil, is told of every record, with
// an error that is ErrRefused or ErrNotFound if it was left as it is.
//
// Interrupted, it leaves the rest as it is; what it did stays done, so that the
// same call again goes on.
func (a *Admin) RequeueAll(ctx context.Context, by By, how Requeueing, f QuarantineFilter, each func(Requeued, error)) (QuarantineProgress, error) {
	var p QuarantineProgress
	f.OldestFirst = true
	err := a.quarantinePages(ctx, f, func(page []Quarantined) error {
		for _, q := range page {
			r, err := a.requeue(ctx, by, how, q.ID)
			switch {
			case err == nil:
				p.Done++
			case errors.Is(err, ErrNotFound), errors.Is(err, ErrRefused):
				p.Left++
			default:
				return err
			}
			if each != nil {
				each(r, err)
			}
		}
		return nil
	})
	return p, err
}

var errDryRun = errors.New("dry run")

// inFailedTransaction is the SQLSTATE of a statement after one that failed.
const inFailedTransaction = "25P02"

func (a *Admin) requeue(ctx context.Context, by By, how Requeueing, id int64) (Requeued, error) {
	var r Requeued
	var err error
	for range 5 {
		err = a.change(ctx, func(tx pgx.Tx) (err error) {
			if r, err = a.requeueIn(ctx, tx, by, how, id); err == nil && how.DryRun {
				return errDryRun
			}
			return err
		})
		// Storing tries once more by itself when it met another transaction, which
		// is of no use inside one.
		if s := sqlState(err); s != inFailedTransaction {
			break
		}
	}
	switch {
	case err == nil, errors.Is(err, errDryRun):
		return r, nil
	case sqlState(err) == lockNotAvailable:
		return Requeued{ID: id}, refused(r.AggregateID, "record %d could not be stored: for %s somebody else was storing events of its aggregate", id, lockWait)
	case errors.Is(err, ErrRefused), errors.Is(err, ErrNotFound):
		return Requeued{ID: id}, err
	}
	return Requeued{ID: id}, fmt.Errorf("requeue record %d: %w", id, err)
}

const requeueSQL = `with gone as (
	delete from {schema}.quarantine where id = $1 returning *
)
insert into {schema}.audit (actor, action, aggregate_id, event_id, reason, detail)
select {schema}.who($2), 'requeue', nullif($3, ''), nullif($4, ''), nullif($5, ''),
	` + quarantineTraceSQL + ` || jsonb_build_object('outcome', $6::text, 'out_of_order', $7::boolean)
from gone q`

func (a *Admin) requeueIn(ctx context.Context, tx pgx.Tx, by By, how Requeueing, id int64) (Requeued, error) {
	r := Requeued{ID: id}
	if err := a.lockQuarantined(ctx, tx, id); err != nil {
		return r, err
	}
	d, err := a.quarantineRecord(ctx, tx, quarantineRecordSQL, id)
	if err != nil {
		return r, err
	}
	event, err := how.Decode(d.record())
	var refusal *inbox.Refusal
	switch {
	case errors.Is(err, inbox.ErrIgnored):
		r.Outcome = "ignored"
		return r, a.removeRequeued(ctx, tx, by, &r)
	case errors.As(err, &refusal):
		return r, refused("", "record %d is still no event: %s: %s", id, refusal.Reason, refusal.Detail)
	case err != nil:
		return r, refused("", "record %d is still no event: %s", id, err)
	}
	r.EventID, r.AggregateID, r.EventType = event.ID, event.AggregateID, event.Type
	outcomes, err := inbox.NewStore(tx, a.name).Put(ctx, []inbox.Event{event})
	if err != nil {
		return r, err
	}
	switch r.Outcome = outcomes[0].String(); outcomes[0] {
	case inbox.Conflict:
		return r, refused(event.AggregateID, "record %d cannot be stored: an event %q with another content is stored already; see it with: inboxd events show %s",
			id, event.ID, event.ID)
	case inbox.Stored:
		if err := a.noteOvertaken(ctx, tx, how, d, &r); err != nil {
			return r, err
		}
	}
	return r, a.removeRequeued(ctx, tx, by, &r)
}

func (a *Admin) removeRequeued(ctx context.Context, tx pgx.Tx, by By, r *Requeued) error {
	_, err := tx.Exec(ctx, a.in(requeueSQL), r.ID, cleaned(by.Actor), r.AggregateID, r.EventID, cleaned(by.Reason), r.Outcome, r.OutOfOrder)
	return err
}

// record is the record as the broker delivered it.
func (d *QuarantinedDetail) record() inbox.Record {
	r := inbox.Record{Key: d.Key, Value: d.Value, Headers: d.Headers, Time: d.recordTime}
	if s := d.Source; s != nil {
		r.Source = inbox.Source{Topic: s.Topic, Partition: s.Partition, Offset: s.Offset}
	}
	return r
}

func nullIf(s, none string) *string {
	if s == none {
		return nil
	}
	return &s
}
