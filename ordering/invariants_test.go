package ordering_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// violationsSQL looks at the tables alone and answers what must never be there
// while no transaction is under way. Events whose type begins with Ignored have
// no effects.
const violationsSQL = `
with lane as (
	select a.lane_id, a.aggregate_id as name, a.last_position, a.pending, a.parked,
		l.cursor, l.state, l.next_attempt_at, l.segment, l.crashes, l.cursor < l.replayed_to as replaying
	from inboxd.aggregates a left join inboxd.lanes l using (lane_id)
), stored as (
	select lane_id, count(*) as n, min(position) as low, max(position) as high from inboxd.inbox group by 1
), ledger as (
	select r.*, lag(r.last_position, 1, case r.generation when 0 then 0::bigint else r.first_position - 1 end)
		over (partition by r.lane_id, r.generation order by r.last_position) as before
	from inboxd.runs r
), effect as (
	select e.*, lag(e.position) over (partition by e.aggregate_id order by e.n) as before from effects e
), ran as (
	select v.aggregate_id, v.event_id
	from inboxd.events v
	where v.processed_at is not null and v.skipped_at is null and v.event_type not like 'Ignored%'
)
select 'no lane' as kind, name as detail from lane where cursor is null
union all
select 'positions not dense', format('%s: %s events from %s to %s, last position %s', name, n, low, high, last_position)
from lane left join stored using (lane_id)
where (coalesce(n, 0), coalesce(low, 1), coalesce(high, 0)) <> (last_position, 1, last_position)
union all
select 'cursor past the end', format('%s: %s of %s', name, cursor, last_position) from lane where cursor > last_position
union all
select 'ledger not contiguous', format('%s: %s..%s after %s', name, first_position, last_position, before)
from ledger join lane using (lane_id, last_position) where first_position <> before + 1
union all
select 'ledger not contiguous', format('lane %s: %s..%s after %s', lane_id, first_position, last_position, before)
from ledger where first_position <> before + 1 or last_position < first_position
union all
select 'ledger does not end at the cursor', format('%s: cursor %s, ledger %s', name, cursor, high)
from lane left join (select lane_id, max(last_position) as high from inboxd.runs group by 1) r using (lane_id)
where cursor <> coalesce(high, 0) and not replaying
union all
select 'ledger in the wrong segment', format('lane %s: run to %s in segment %s', r.lane_id, r.last_position, r.segment)
from inboxd.runs r
where not exists (select from inboxd.inbox i where (i.lane_id, i.position, i.segment) = (r.lane_id, r.last_position, r.segment))
union all
select 'next event before the lane''s segment', format('%s: event %s in %s, lane in %s', name, i.position, i.segment, lane.segment)
from lane join inboxd.inbox i using (lane_id) where i.position = cursor + 1 and i.segment < lane.segment
union all
select 'parked while ready', name from lane where parked and state = 'ready'
union all
select 'work out of the sweep''s reach', format('%s: %s, cursor %s of %s, pending %s, parked %s', name, state, cursor, last_position, pending, parked)
from lane where last_position > cursor and (not pending or state = 'ready' and parked)
union all
select 'backoff without a time', name from lane where state = 'backoff' and next_attempt_at is null
union all
select 'processed_at does not follow the cursor', format('%s: event %s, cursor %s', v.event_id, v.position, cursor)
from inboxd.events v join lane using (lane_id) where (v.processed_at is null) <> (v.position > cursor)
union all
select 'skipped and not processed', event_id from inboxd.events where skipped_at is not null and processed_at is distinct from skipped_at
union all
select 'events missing from the view', format('%s of %s', v, n)
from (select (select count(*) from inboxd.events) as v, (select count(*) from inboxd.inbox) as n) c where v <> n
union all
select 'effects out of order', format('%s: %s after %s', event_id, position, before) from effect where position <= before
union all
select 'took effect and was not run', event_id from (select event_id from effects except all select event_id from ran) x
union all
select 'run without effect', event_id from (select event_id from ran except all select event_id from effects) x
union all
select 'a crash is counted for an event that is done', format('%s: event %s, cursor %s', name, f.position, cursor)
from lane join inboxd.failures f using (lane_id) where f.crash and f.position <= cursor
`

type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// violations answers what is wrong in the tables. Compiling the plan would take
// far longer than running it.
func violations(db beginner) (found []string, err error) {
	ctx := context.Background()
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local jit = off`); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, violationsSQL)
		if err != nil {
			return err
		}
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			var kind, detail string
			err := row.Scan(&kind, &detail)
			return kind + ": " + detail, err
		})
		return err
	})
	return found, err
}

// sound fails the test if anything is wrong in the tables.
func (s *stage) sound() {
	s.t.Helper()
	found, err := violations(s.pool)
	must(s.t, err)
	for i, v := range found {
		if i == 10 {
			s.t.Errorf("and %d more", len(found)-i)
			return
		}
		s.t.Error(v)
	}
}

// The checks are worth something only if they find what is wrong.
func TestViolationsAreFound(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, 4)
	s.run(sqlRegistry(t, "Paid"), quick())
	s.sound()
	corruptions := map[string]string{
		"positions not dense":                          `delete from inboxd.inbox where lane_id = 1 and position = 2`,
		"cursor past the end":                          `update inboxd.lanes set cursor = 5 where lane_id = 1`,
		"ledger not contiguous":                        `update inboxd.runs set first_position = 2 where lane_id = 1 and first_position = 1`,
		"ledger does not end at the cursor":            `update inboxd.lanes set cursor = 3 where lane_id = 1`,
		"ledger in the wrong segment":                  `select inboxd.open_segment(); update inboxd.runs set segment = 2 where lane_id = 1`,
		"next event before the lane's segment":         `update inboxd.lanes set cursor = 3, segment = 2 where lane_id = 1`,
		"parked while ready":                           `update inboxd.aggregates set parked = true where lane_id = 1`,
		"work out of the sweep's reach":                `update inboxd.aggregates set last_position = 5, pending = false where lane_id = 1`,
		"backoff without a time":                       `update inboxd.lanes set state = 'backoff' where lane_id = 1`,
		"effects out of order":                         `update effects set n = default where aggregate_id = 'agg-0' and position = 2`,
		"took effect and was not run":                  `insert into effects (event_id) values ('Paid-0-1')`,
		"run without effect":                           `delete from effects where event_id = 'Paid-0-1'`,
		"a crash is counted for an event that is done": `insert into inboxd.failures (lane_id, position, attempt, crash, process_id, fingerprint, message) values (1, 1, 1, true, 1, '', '')`,
	}
	for kind, sql := range corruptions {
		s.finds(kind, sql)
	}
}

// finds corrupts the tables, looks, and takes it back.
func (s *stage) finds(kind, corruption string) {
	s.t.Helper()
	ctx := context.Background()
	tx, err := s.pool.Begin(ctx)
	must(s.t, err)
	defer func() { must(s.t, tx.Rollback(ctx)) }()
	_, err = tx.Conn().PgConn().Exec(ctx, corruption).ReadAll()
	must(s.t, err)
	found, err := violations(tx)
	must(s.t, err)
	for _, v := range found {
		if len(v) > len(kind) && v[:len(kind)] == kind {
			return
		}
	}
	s.t.Errorf("%s is not found among %q", kind, found)
}
