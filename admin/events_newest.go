package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// endPages is how many pages at the end of a segment are looked at first, for the
// newest events.
const endPages = 1000

// segment is one generation of stored events.
type segment struct {
	Number int32
	End    int64 // the page from which on its newest events are likely to be
}

// By the primary key, backwards.
const newestSegmentsSQL = `
select s.segment, greatest(pg_relation_size(p.part) / current_setting('block_size')::bigint - $2, 0)
from {schema}.segments s
cross join lateral (select to_regclass($1 || '.inbox_' || s.segment) as part) p
where p.part is not null
order by s.segment desc`

// eachNewest searches one segment after the other, from the newest on, each in
// one statement: no index has this order, so that each page would search the
// segment again.
func (a *Admin) eachNewest(ctx context.Context, f EventFilter, yield func(Event, error) bool) error {
	rows, err := a.db.Query(ctx, a.in(newestSegmentsSQL), a.schema, endPages)
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	segments, err := pgx.CollectRows(rows, pgx.RowToStructByPos[segment])
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	left := f.Limit
	for _, s := range segments {
		q := f.conditions(0)
		q.and("i.segment = " + q.arg(s.Number))
		if left > 0 {
			since, err := a.bound(ctx, f, s, left)
			if err != nil {
				return fmt.Errorf("list events: %w", err)
			}
			if since != nil {
				q.and("i.received_at >= " + q.arg(*since))
			}
		}
		n := 0
		err := a.eachEvent(ctx, q,
			"i.received_at desc, i.lane_id desc, i.position desc",
			"picked.received_at desc, picked.lane_id desc, picked.position desc", left,
			func(e Event, err error) bool {
				n++
				return yield(e, err)
			})
		if err != nil {
			return err
		}
		if f.Limit == 0 {
			continue
		}
		if left -= n; left == 0 {
			return nil
		}
	}
	return nil
}

// bound finds a time that so many events of the segment have reached: none that
// is older is among the newest so many. Events are stored one behind the other,
// so that the end of the segment shows one that is near; sorting the whole
// segment would take several times as long as searching it. Nil: there are not as
// many events at the end.
func (a *Admin) bound(ctx context.Context, f EventFilter, s segment, events int) (*time.Time, error) {
	q := f.conditions(0)
	q.and("i.segment = " + q.arg(s.Number))
	q.and("i.ctid >= format('(%s,0)', " + q.arg(s.End) + "::bigint)::tid")
	sql := `select i.received_at from {schema}.inbox i
where ` + strings.Join(q.where, "\n\tand ") + `
order by i.received_at desc
offset ` + q.arg(events-1) + ` limit 1`
	var since time.Time
	switch err := a.db.QueryRow(ctx, a.in(sql), q.args...).Scan(&since); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &since, nil
}
