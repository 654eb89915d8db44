-- What only programs that import inboxd call, and what sources report.

-- forget_claims deletes the oldest claims, of before and earlier, at most page of
-- them; after is where the deletion before ended, so that what it left dead is
-- not looked at again. It answers how many it deleted, and the time of the last;
-- with less than page of them there are no more. It waits for nobody.
create function {{.schema}}.forget_claims(after timestamptz, before timestamptz, page integer,
	out forgotten integer, out last timestamptz)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
	with old as (
		select c.ctid as row from {{.schema}}.claims c
		where c.claimed_at >= after and c.claimed_at < before
		order by c.claimed_at
		limit page
		for update skip locked
	), gone as (
		delete from {{.schema}}.claims c
		where c.ctid = any(array(select o.row from old o))
		returning c.claimed_at
	)
	select count(*), max(g.claimed_at) into forgotten, last from gone g;
end $$;

-- find_event reads one event and what became of it, by its id.
create function {{.schema}}.find_event(id text) returns setof {{.schema}}.events
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
	return query
	select e.* from {{.schema}}.events e
	where e.event_id = id
	order by e.segment desc
	limit 1;
end $$;

-- lane_events reads a lane's events from a position on, in order: at most page of
-- them, and no more than have bytes of payload, save that there is always one if
-- there is any. Without one there are no more.
create function {{.schema}}.lane_events(lane bigint, first bigint, page integer, bytes bigint)
returns setof {{.schema}}.events
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
	return query
	select e.*
	from (
		select n.position, n.segment, sum(n.size) over (order by n.position) - n.size as bytes_before
		from (
			select i.position, i.segment, octet_length(i.payload)::bigint as size
			from {{.schema}}.inbox i
			where i.lane_id = lane and i.position >= first
			order by i.position
			limit page
		) n
	) p
	cross join lateral (
		select v.* from {{.schema}}.events v
		where v.lane_id = lane and v.position = p.position and v.segment = p.segment
		limit 1
	) e
	where p.bytes_before < bytes
	order by p.position;
end $$;

-- lane_counts counts the lanes of each state, in one snapshot. It reads an index
-- entry for each lane that is held (lanes_held), two rows for each that can run
-- (aggregates_pending), and for idle an index entry for every lane there is.
-- running is what the processes have said within the last seconds.
create function {{.schema}}.lane_counts(
	out idle bigint, out ready bigint, out running bigint, out backoff bigint,
	out waiting bigint, out stuck bigint, out paused bigint)
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	busy_ready bigint;
	busy_backoff bigint;
begin
	select count(*) filter (where l.state = 'ready'), count(*) filter (where l.state = 'backoff')
	into busy_ready, busy_backoff
	from (
		select distinct b.lane_id
		from {{.schema}}.processes p, unnest(p.running) b(lane_id)
		where p.seen_at > clock_timestamp() - interval '3 seconds'
	) b
	cross join lateral (
		select k.state, k.cursor, k.next_attempt_at from {{.schema}}.lanes k where k.lane_id = b.lane_id limit 1
	) l
	cross join lateral (
		select g.last_position from {{.schema}}.aggregates g where g.lane_id = b.lane_id limit 1
	) a
	where a.last_position > l.cursor
		and (l.state = 'ready' or l.state = 'backoff' and l.next_attempt_at <= clock_timestamp());

	select count(*) into ready
	from {{.schema}}.aggregates a
	cross join lateral (
		select k.state, k.cursor from {{.schema}}.lanes k where k.lane_id = a.lane_id limit 1
	) l
	where a.pending and not a.parked and l.state = 'ready' and a.last_position > l.cursor;

	select count(*) filter (where l.state = 'backoff'), count(*) filter (where l.state = 'waiting'),
		count(*) filter (where l.state = 'stuck'), count(*) filter (where l.state = 'paused')
	into backoff, waiting, stuck, paused
	from {{.schema}}.lanes l where l.state <> 'ready';

	select count(*) into idle from {{.schema}}.lanes l;
	idle := idle - ready - backoff - waiting - stuck - paused;
	running := busy_ready + busy_backoff;
	ready := ready - busy_ready;
	backoff := backoff - busy_backoff;
end $$;

-- note_sources writes how far a process is with the partitions that it reads, and
-- adds what it counted since the last time, five numbers a partition. Positions
-- are null for partitions that it no longer reads: of these only the counts are
-- taken, for another process may have written since. gone are topics that cannot
-- be read, and why_gone says why. Rows are locked in the order of their key.
create function {{.schema}}.note_sources(
	reader text, reader_member text, reader_process text,
	topics text[], partitions integer[], states text[], positions bigint[], commits bigint[], ends bigint[],
	counts bigint[], errors text[], error_times timestamptz[], gone text[], why_gone text[], topic_ids text[] default '{}')
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
	insert into {{.schema}}.sources as s (consumer_group, topic, partition, state, topic_id, position, committed, end_offset,
		stored, duplicates, conflicts, quarantined, ignored, member, process, error_message, error_at)
	select reader, n.topic, n.partition, n.state, n.topic_id, n.position, n.committed, n.end_offset,
		counts[5*n.ord-4], counts[5*n.ord-3], counts[5*n.ord-2], counts[5*n.ord-1], counts[5*n.ord],
		case when n.position is not null then reader_member end,
		case when n.position is not null then reader_process end, n.error, n.error_at
	from unnest(topics, partitions, states, positions, commits, ends, errors, error_times, topic_ids)
		with ordinality n(topic, partition, state, position, committed, end_offset, error, error_at, topic_id, ord)
	order by n.topic collate "C", n.partition
	on conflict on constraint sources_pkey do update
	set stored = s.stored + excluded.stored, duplicates = s.duplicates + excluded.duplicates,
		conflicts = s.conflicts + excluded.conflicts, quarantined = s.quarantined + excluded.quarantined,
		ignored = s.ignored + excluded.ignored,
		(state, topic_id, position, committed, end_offset, member, process, seen_at, error_message, error_at) = (
			select excluded.state, excluded.topic_id, excluded.position, excluded.committed, excluded.end_offset, excluded.member,
				excluded.process, clock_timestamp(), excluded.error_message, excluded.error_at
			where excluded.position is not null
			union all
			select s.state, s.topic_id, s.position, s.committed, s.end_offset, s.member,
				s.process, s.seen_at, s.error_message, s.error_at
			where excluded.position is null);
	update {{.schema}}.sources s
	set state = 'missing', member = null, process = null, error_message = g.why, error_at = clock_timestamp()
	from unnest(gone, why_gone) g(topic, why)
	where s.consumer_group = reader and s.topic = g.topic
		and (s.state, s.error_message) is distinct from ('missing', g.why);
end $$;
