package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// byIndexSQL holds for one transaction: whatever the planner believes of tables
// that have just grown, heads are looked up one by one.
const byIndexSQL = `select set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
	set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`

// headsSQL names the types of heads: of the lanes that are held longest, by the
// index lanes_held, and of lanes that can run, by aggregates_pending.
const headsSQL = `
select distinct h.event_type
from (
	(select lane_id, cursor, segment from {schema}.lanes where state = 'stuck' order by since, lane_id limit 5000)
	union all
	(select lane_id, cursor, segment from {schema}.lanes where state = 'backoff' order by since, lane_id limit 1000)
	union all
	(select lane_id, cursor, segment from {schema}.lanes where state = 'paused' order by since, lane_id limit 1000)
	union all
	select l.lane_id, l.cursor, l.segment
	from (select lane_id from {schema}.aggregates where pending and not parked order by lane_id limit 1000) a
	cross join lateral (select k.* from {schema}.lanes k where k.lane_id = a.lane_id limit 1) l
) w
cross join lateral (
	select i.event_type from {schema}.inbox i
	where i.lane_id = w.lane_id and i.segment >= w.segment and i.position > w.cursor
	order by i.position
	limit 1
) h`

// newest is how many pages of the inbox are read at most, from its end: events
// are stored one after the other, and no index has their types or times.
const newest = 1000

const (
	segmentsSQL = `
select s.segment, greatest(pg_relation_size(p.part) / current_setting('block_size')::bigint - $2, 0)
from {schema}.segments s
cross join lateral (select to_regclass($1 || '.inbox_' || s.segment) as part) p
where p.part is not null
order by s.segment desc
limit 2`

	newestSQL = `
select distinct event_type from {schema}.inbox
where segment = $1 and ctid >= format('(%s,0)', $2::bigint)::tid and received_at > clock_timestamp() - interval '1 h'`
)

// eventTypes looks for types that no handler of this program takes.
func (e *examiner) eventTypes(ctx context.Context) (finding, error) {
	found, err := e.typesInUse(ctx)
	if err != nil {
		return finding{}, err
	}
	var handled, ignored int
	var missing []string
	for _, t := range found {
		switch {
		case e.Registry.Ignores(t):
			ignored++
		case e.Registry.Has(t):
			handled++
		default:
			missing = append(missing, t)
		}
	}
	known := fmt.Sprintf("of %s among heads and newest events %d %s a handler, %d %s ignored",
		count(len(found), "type"), handled, agree(handled, "has", "have"), ignored, agree(ignored, "is", "are"))
	if len(missing) == 0 {
		return fine("%s", known), nil
	}
	remedy := make([]string, 0, 3)
	for _, t := range missing[:min(len(missing), 3)] {
		remedy = append(remedy, "inboxd lanes list --type "+shellWord(t))
	}
	text := fmt.Sprintf("%s without a handler, whose lanes become stuck: %s (%s); add a handler, or let them pass with a line below handlers in the configuration: %s: ignore",
		count(len(missing), "type"), strings.Join(missing[:min(len(missing), 10)], ", "), known, missing[0])
	if len(e.Registry.Types()) == 0 {
		return warn(strings.Join(remedy, "\n"), "%s; this program has no handler at all: ask the doctor of the program that serves", text), nil
	}
	return fail(strings.Join(remedy, "\n"), "%s", text), nil
}

// typesInUse are the types of heads and of what came within the last hour.
func (e *examiner) typesInUse(ctx context.Context) ([]string, error) {
	var found []string
	err := pgx.BeginTxFunc(ctx, e.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, byIndexSQL); err != nil {
			return err
		}
		var err error
		if found, err = texts(ctx, tx, e.in(headsSQL)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `select set_config('enable_seqscan', 'on', true)`); err != nil {
			return err
		}
		parts, err := tx.Query(ctx, e.in(segmentsSQL), e.schema, newest)
		if err != nil {
			return err
		}
		type part struct {
			Segment int32
			From    int64
		}
		ends, err := pgx.CollectRows(parts, pgx.RowToStructByPos[part])
		if err != nil {
			return err
		}
		for _, p := range ends {
			more, err := texts(ctx, tx, e.in(newestSQL), p.Segment, p.From)
			if err != nil {
				return err
			}
			found = append(found, more...)
		}
		return nil
	})
	slices.Sort(found)
	return slices.Compact(found), err
}

func texts(ctx context.Context, tx pgx.Tx, sql string, args ...any) ([]string, error) {
	found, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowTo[string])
}
