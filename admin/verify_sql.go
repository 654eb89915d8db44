package admin

const (
	// Plans are made for the arguments at hand: with one aggregate they go by
	// index, without they read each table once. An audit takes as long as it
	// takes, and holds up nobody.
	verifySettingsSQL = `select set_config('plan_cache_mode', 'force_custom_plan', true),
	set_config('statement_timeout', '0', true), set_config('work_mem', '32MB', true)`

	// Retention drops the oldest segments whole.
	segmentsSQL = `select count(*), coalesce(min(segment) > 1, false) from {schema}.segments`

	// verifyLanesSQL answers a row a lane: its two rows, its events and its runs,
	// joined so that none is left out.
	//
	// Positions are unique within a segment by the primary key, so a piece (the
	// events of one lane in one segment) is dense if and only if it has as many
	// events as it spans positions; and pieces must join on to each other.
	verifyLanesSQL = `
with pieces as (
	select i.lane_id, i.segment, count(*) as events, min(i.position) as first, max(i.position) as last,
		count(*) filter (where $2::timestamptz is null or i.received_at >= $2) as counted,
		min(i.aggregate_id) as least, max(i.aggregate_id) as most
	from {schema}.inbox i
	where $1::bigint is null or i.lane_id = $1
	group by i.lane_id, i.segment
), stored as (
	select p.lane_id, min(p.first) as first, max(p.last) as last, sum(p.counted)::bigint as counted,
		bool_or(p.events <> p.last - p.first + 1 or p.first <> p.before + 1) as broken,
		max(p.last) filter (where p.segment < p.reads_from) as hidden,
		min(p.least) as least, max(p.most) as most
	from (
		select p.*, l.segment as reads_from,
			lag(p.last) over (partition by p.lane_id order by p.segment) as before
		from pieces p
		left join {schema}.lanes l on l.lane_id = p.lane_id
	) p
	group by p.lane_id
), generations as (
	select g.*, max(g.last) over earlier as reached, max(g.ended) over earlier as ended_before
	from (
		select r.lane_id, r.generation, min(r.first_position) as first, max(r.last_position) as last,
			min(r.at) as began, max(r.at) as ended
		from {schema}.runs r
		where $1::bigint is null or r.lane_id = $1
		group by r.lane_id, r.generation
	) g
	window earlier as (partition by g.lane_id order by g.generation rows between unbounded preceding and 1 preceding)
), ledger as (
	select g.lane_id, min(g.first) as first, max(g.last) as reached, max(g.generation) as generation,
		(array_agg(g.last order by g.generation desc))[1] as newest,
		min(g.reached + 1) filter (where g.first > g.reached + 1) as jumped,
		min(g.first) filter (where g.began < g.ended_before) as early
	from generations g
	group by g.lane_id
)
select lane_id, coalesce(a.aggregate_id, l.aggregate_id, s.least, ''),
	a.aggregate_id is not null, l.aggregate_id is not null,
	coalesce(a.last_position, 0), coalesce(a.pending, false), coalesce(a.parked, false),
	coalesce(l.cursor, 0), coalesce(l.generation, 0), coalesce(l.segment, 0), coalesce(l.state, ''),
	l.next_attempt_at is not null,
	l.error_message is not null and l.error_fingerprint is not null and l.error_at is not null,
	l.paused_by is not null and l.paused_reason is not null,
	s.first, s.last, coalesce(s.counted, 0), coalesce(s.broken, false), s.hidden,
	coalesce(s.least <> a.aggregate_id or s.most <> a.aggregate_id, false),
	coalesce(l.aggregate_id <> a.aggregate_id, false),
	r.first, r.reached, r.newest, r.generation, r.jumped, r.early
from (select * from {schema}.lanes l where $1::bigint is null or l.lane_id = $1) l
full join (select * from {schema}.aggregates a where $1::bigint is null or a.lane_id = $1) a using (lane_id)
full join stored s using (lane_id)
full join ledger r using (lane_id)`

	// By the primary key, for a few lanes.
	verifyGapsSQL = `
select d.lane_id, a.aggregate_id, d.before, d.position
from (
	select i.lane_id, i.position, i.received_at,
		lag(i.position) over (partition by i.lane_id order by i.position, i.segment) as before
	from {schema}.inbox i
	where i.lane_id = any($1)
) d
left join {schema}.aggregates a on a.lane_id = d.lane_id
where d.position <> d.before + 1 and ($2::timestamptz is null or d.received_at >= $2)`

	// By the primary key, for a few lanes.
	verifyStrangersSQL = `
select i.lane_id, a.aggregate_id, i.position, i.event_id, i.aggregate_id
from {schema}.inbox i
join {schema}.aggregates a on a.lane_id = i.lane_id
where i.lane_id = any($1) and i.aggregate_id <> a.aggregate_id
	and ($2::timestamptz is null or i.received_at >= $2)`

	// Each run is compared with the one before it in its lane and generation: it
	// begins where that ended, and was committed after it.
	verifyLedgerSQL = `
select v.lane_id, coalesce(a.aggregate_id, ''), v.first_position, v.last_position, v.at,
	v.before_first, v.before_last, v.before_at
from (
	select r.lane_id, r.first_position, r.last_position, r.at,
		lag(r.first_position) over w as before_first,
		lag(r.last_position) over w as before_last,
		lag(r.at) over w as before_at
	from {schema}.runs r
	where $1::bigint is null or r.lane_id = $1
	window w as (partition by r.lane_id, r.generation order by r.last_position, r.segment)
) v
left join {schema}.aggregates a on a.lane_id = v.lane_id
where (v.first_position > v.last_position or v.first_position <> v.before_last + 1 or v.at < v.before_at)
	and ($2::timestamptz is null or v.at >= $2)`

	// Skips are few; their audit rows are found by hashing or by the index
	// audit_aggregate, which has the default collation.
	verifySkipsSQL = `
select r.lane_id, i.aggregate_id, r.last_position, i.event_id, r.at
from {schema}.runs r
join {schema}.inbox i on i.lane_id = r.lane_id and i.position = r.last_position and i.segment = r.segment
where r.kind = 's' and ($1::bigint is null or r.lane_id = $1) and ($2::timestamptz is null or r.at >= $2)
	and not exists (
		select from {schema}.audit u
		where u.action = 'skip' and u.aggregate_id = i.aggregate_id collate "default" and u.event_id = i.event_id)`

	// By the unique constraint, whose order is that of the groups, or by sorting.
	verifyDoublesSQL = `
select i.event_id
from {schema}.inbox i
group by i.event_id
having count(*) > 1 and ($1::timestamptz is null or max(i.received_at) >= $1)`

	// By the primary key, and for each event by the unique constraint.
	verifyLaneDoublesSQL = `
select i.event_id
from {schema}.inbox i
where i.lane_id = $2 and ($1::timestamptz is null or i.received_at >= $1)
	and exists (select from {schema}.inbox j where j.event_id = i.event_id and j.segment <> i.segment)
group by i.event_id`

	// By the unique constraint.
	copiesSQL = `
select i.event_id, i.lane_id, i.aggregate_id, i.position, i.segment
from {schema}.inbox i
where i.event_id = any($1)
order by i.event_id, i.segment`

	// By the primary key.
	nameEventsSQL = `
select n.ord, e.event_id
from unnest($1::bigint[], $2::bigint[]) with ordinality n(lane_id, position, ord)
cross join lateral (
	select i.event_id from {schema}.inbox i
	where i.lane_id = n.lane_id and i.position = n.position
	limit 1
) e`
)
