package admin

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
)

// AuditFilter says which changes are meant. The zero AuditFilter means all.
type AuditFilter struct {
	// AggregateID is the aggregate that was changed.
	AggregateID string
	// Action is what was done: retry, skip, edit, …
	Action string
	// Actor is who did it, as AuditEntry.Actor has it, or either half of it: the
	// database's user, or the person or program.
	Actor string
	// From and Until bound AuditEntry.At: From ≤ it < Until. Zero: no bound.
	From, Until time.Time
	// Limit is how many changes there are at most. 0: all.
	Limit int
}

func (f AuditFilter) validate() error { return checkList(f.Limit, f.From, f.Until) }

// checkList says what is wrong with the limit or the times of a list.
func checkList(limit int, from, until time.Time) error {
	switch {
	case limit < 0:
		return invalid("the limit is %d, but must not be negative", limit)
	case !from.IsZero() && !until.IsZero() && !from.Before(until):
		return invalid("no time is both at or after %s and before %s", from.Format(time.RFC3339), until.Format(time.RFC3339))
	}
	return nil
}

func (f AuditFilter) conditions() *query {
	q := &query{}
	q.and("true")
	if f.AggregateID != "" {
		q.and("aggregate_id = " + q.arg(cleaned(f.AggregateID)))
	}
	if f.Action != "" {
		q.and("action = " + q.arg(cleaned(f.Action)))
	}
	if f.Actor != "" {
		actor := q.arg(cleaned(f.Actor))
		q.and("(actor = " + actor + " or split_part(actor, '/', 1) = " + actor +
			" or substr(actor, strpos(actor, '/') + 1) = " + actor + ")")
	}
	if !f.From.IsZero() {
		q.and("at >= " + q.arg(f.From))
	}
	if !f.Until.IsZero() {
		q.and("at < " + q.arg(f.Until))
	}
	return q
}

// Audit lists what operators changed, the newest first, in pages by key. It ends
// at the first error.
func (a *Admin) Audit(ctx context.Context, f AuditFilter) iter.Seq2[AuditEntry, error] {
	return func(yield func(AuditEntry, error) bool) {
		if err := f.validate(); err != nil {
			yield(AuditEntry{}, err)
			return
		}
		byKey(f.Limit, func(before int64, size int) ([]AuditEntry, error) {
			return a.auditPage(ctx, f, before, size)
		}, func(e AuditEntry) int64 { return e.ID }, yield)
	}
}

// auditPage reads by the primary key or, for one aggregate, by the index
// audit_aggregate, backwards.
func (a *Admin) auditPage(ctx context.Context, f AuditFilter, before int64, size int) ([]AuditEntry, error) {
	q := f.conditions()
	q.and("id < " + q.arg(before))
	sql := `select id, at, actor, action, aggregate_id, event_id, reason, detail
from {schema}.audit
where ` + strings.Join(q.where, "\n\tand ") + `
order by id desc
limit ` + q.arg(size)
	page, err := collect(ctx, a.db, scanAudit, a.in(sql), q.args...)
	if err != nil {
		return nil, fmt.Errorf("list the audit: %w", err)
	}
	return page, nil
}

// CountAudit answers how many changes the filter means; Limit does not count.
func (a *Admin) CountAudit(ctx context.Context, f AuditFilter) (int, error) {
	if err := f.validate(); err != nil {
		return 0, err
	}
	q := f.conditions()
	var n int
	sql := `select count(*) from {schema}.audit where ` + strings.Join(q.where, " and ")
	if err := a.db.QueryRow(ctx, a.in(sql), q.args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the audit: %w", err)
	}
	return n, nil
}

// byKey gives the rows of pages in descending order of a key, up to limit of
// them if it is not 0. page reads up to size rows below a key.
func byKey[T any](limit int, page func(before int64, size int) ([]T, error), key func(T) int64, yield func(T, error) bool) {
	left, before := limit, int64(1<<63-1)
	for {
		size := PageSize
		if limit > 0 {
			size = min(left, PageSize)
		}
		rows, err := page(before, size)
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
			before = key(row)
		}
		if left -= len(rows); len(rows) < size || left == 0 {
			return
		}
	}
}
