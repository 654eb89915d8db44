package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// run is a row of the ledger and the one before it in its lane and generation,
// if there is one.
type run struct {
	lane        int64
	name        string
	first, last int64
	at          time.Time

	beforeFirst, beforeLast *int64
	beforeAt                *time.Time
}

// ledger audits that the runs of each lane follow each other.
func (v *verifier) ledger(ctx context.Context) error {
	var r run
	return v.each(ctx, verifyLedgerSQL, func(rows pgx.Rows) error {
		err := rows.Scan(&r.lane, &r.name, &r.first, &r.last, &r.at, &r.beforeFirst, &r.beforeLast, &r.beforeAt)
		if err != nil {
			return err
		}
		v.judgeRun(&r)
		return nil
	}, v.lane, v.since)
}

func (v *verifier) judgeRun(r *run) {
	found := func(kind Kind, position int64, format string, args ...any) {
		v.add(Violation{Kind: kind, AggregateID: r.name, Position: &position, Detail: fmt.Sprintf(format, args...), lane: r.lane})
	}
	if r.first > r.last {
		found(OutOfOrder, r.last, "the ledger has a run that begins at %d and ends before, at %d", r.first, r.last)
	}
	if r.beforeLast == nil {
		return
	}
	before := span(*r.beforeFirst, *r.beforeLast)
	switch {
	case r.first <= *r.beforeLast:
		from := max(r.first, *r.beforeFirst)
		found(Overlap, from, "%s ran twice: the ledger has a run of %s and a run of %s",
			events(from, *r.beforeLast), before, span(r.first, r.last))
	case r.first > *r.beforeLast+1:
		found(PassedOver, *r.beforeLast+1, "no run covers %s: the ledger goes on from a run of %s to a run of %s",
			events(*r.beforeLast+1, r.first-1), before, span(r.first, r.last))
	}
	if r.at.Before(*r.beforeAt) {
		found(OutOfOrder, r.first, "%s ran at %s, before %s, which ran at %s",
			events(r.first, r.last), stamp(r.at), events(*r.beforeFirst, *r.beforeLast), stamp(*r.beforeAt))
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// skips audits that each skip is on record.
func (v *verifier) skips(ctx context.Context) error {
	return v.each(ctx, verifySkipsSQL, func(rows pgx.Rows) error {
		var x Violation
		var position int64
		var id string
		var at time.Time
		if err := rows.Scan(&x.lane, &x.AggregateID, &position, &id, &at); err != nil {
			return err
		}
		x.Kind, x.Position, x.EventID = SkipWithoutRecord, &position, &id
		x.Detail = fmt.Sprintf("the event was skipped at %s, but the audit does not say by whom and why", stamp(at))
		v.add(x)
		return nil
	}, v.lane, v.since)
}
