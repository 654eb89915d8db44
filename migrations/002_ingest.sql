-- The steps of ingest and, in the files after this one, of lanes. Each function is one step, each statement
-- in it sees what was committed before that statement began (read committed).
--
-- They are functions for two reasons: a step is one round trip, and its plans
-- are made with scans and hash joins off. These plans are kept for as long as
-- a connection lives; one that was made while the tables were small would
-- otherwise scan them when they are not. And they are made once: planning anew
-- for the arrays of each call takes longer than running. What is looked up row
-- by row stands in a subquery with a limit, so that no plan can begin at its end.

-- open_segment begins a new segment: its partitions take all events stored from
-- here on. It waits for every store() under way and holds up new ones for the
-- moment until it commits, so that a duplicate is always in a segment that
-- store() can see.
--
-- It waits for nothing else, and whoever only reads events, a long transaction
-- or a backup, does not hold it up: partitions are attached, since creating
-- them in place would wait for every reader with the gate closed.
create function {{.schema}}.open_segment() returns integer
language plpgsql as $$
declare
	fresh integer;
	parent text;
	col name;
begin
	lock table only {{.schema}}.inbox, only {{.schema}}.runs in share update exclusive mode;
	select coalesce(max(s.segment), 0) + 1 into fresh from {{.schema}}.segments s;
	foreach parent in array array['inbox', 'runs'] loop
		execute format('create table {{.schema}}.%I (like {{.schema}}.%I including all)
			with (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0)',
			parent || '_' || fresh, parent);
		-- While a partition is analyzed, no dead row goes away anywhere, and lanes are
		-- written all the time: it has to be over soon, and a small sample will do.
		for col in
			select a.attname from pg_attribute a
			where a.attrelid = format('{{.schema}}.%I', parent)::regclass and a.attnum > 0 and not a.attisdropped
		loop
			execute format('alter table {{.schema}}.%I alter column %I set statistics 10', parent || '_' || fresh, col);
		end loop;
	end loop;
	execute format('create unique index %I on {{.schema}}.%I (lane_id, generation, last_position)',
		'runs_' || fresh || '_key', 'runs_' || fresh);
	perform pg_advisory_xact_lock({{.gate}}, 0);
	foreach parent in array array['inbox', 'runs'] loop
		execute format('alter table {{.schema}}.%I attach partition {{.schema}}.%I for values in (%s)',
			parent, parent || '_' || fresh, fresh);
	end loop;
	insert into {{.schema}}.segments (segment) values (fresh);
	return fresh;
end $$;

select {{.schema}}.open_segment();

-- store puts a batch of events into the inbox, in the order of the arrays.
--
-- names are the batch's aggregates, each once, in the order of their bytes; nos
-- says for each event which of them is its own. nths counts an aggregate's
-- events in the batch: 1, 2, …; it is 0 for an event whose id an earlier one of
-- the batch has. Whoever calls works these out, because it is there a look
-- into a map, and here a sort of the whole batch.
--
-- outcomes has one letter an event: s stored, d duplicate, c conflict (a
-- duplicate whose aggregate, type or payload differs from what is stored).
-- lanes are the lanes that got events, or null. Other processes hear of them by
-- NOTIFY, with the number of the process that stored them in front, unless the
-- server's queue of notifications fills up because of some listener that does
-- not read: the sweep finds them then, and storing goes on.
--
-- Locks: the gate of segments (shared), then the batch's `aggregates` rows in
-- the order of names. It waits for no lane. process_id is the process that
-- stores, as in claim, or null.
--
-- What is looked up row by row stands in subqueries that the planner can
-- neither turn round nor hash. A join or a NOT EXISTS, with a plan that was made
-- while the tables were small, may read a whole table once it is large.
create function {{.schema}}.store(
	names text[], nos integer[], nths integer[],
	event_ids text[], event_types text[], sequences bigint[],
	payloads bytea[], all_headers jsonb[], occurred timestamptz[],
	topics text[], partitions integer[], offsets bigint[], process_id integer,
	out outcomes text, out lanes bigint[])
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	current_segment integer;
	lane_of bigint[];
	last_of bigint[];
	row_of tid[];
	fresh boolean[];
	stored_at timestamptz;
	wake text;
begin
	perform pg_advisory_xact_lock_shared({{.gate}}, 0), pg_advisory_xact_lock_shared({{.gate}}, process_id);
	select max(s.segment) into current_segment from {{.schema}}.segments s;
	if current_setting('transaction_isolation') <> 'read committed'
		and to_regclass(format('{{.schema}}.%I', 'inbox_' || current_segment + 1)) is not null then
		-- The catalog shows what this transaction's snapshot is too old for.
		raise exception 'a segment was opened after this transaction began' using errcode = '40001';
	end if;

	if (select count(*) from {{.schema}}.aggregates a where a.aggregate_id = any(names)) < cardinality(names) then
		with born as (
			insert into {{.schema}}.aggregates (aggregate_id)
			select n.name
			from unnest(names) n(name)
			where (select true from {{.schema}}.aggregates a where a.aggregate_id = n.name limit 1) is null
			order by n.name collate "C"
			on conflict do nothing
			returning lane_id, aggregate_id
		)
		insert into {{.schema}}.lanes (lane_id, aggregate_id, segment)
		select b.lane_id, b.aggregate_id, current_segment from born b;
	end if;

	-- From here on nobody else gives positions to these aggregates. What they
	-- stored is committed, and the next statement sees it.
	select array_agg(l.lane_id), array_agg(l.last_position), array_agg(l.ctid), clock_timestamp()
	into lane_of, last_of, row_of, stored_at
	from unnest(names) n(name)
	left join lateral (
		select a.lane_id, a.last_position, a.ctid
		from {{.schema}}.aggregates a
		where a.aggregate_id = n.name
		limit 1
		for update
	) l on true;

	fresh := array(
		select u.nth > 0
			and (select true from {{.schema}}.inbox i where i.event_id = u.event_id limit 1) is null
		from unnest(event_ids, nths) with ordinality u(event_id, nth, ord)
		order by u.ord);
	outcomes := translate(array_to_string(fresh, ''), 'tf', 'sd');
	if strpos(outcomes, 'd') > 0 then
		nths := array(
			select count(*) filter (where u.fresh) over (partition by u.no order by u.ord)
			from unnest(nos, fresh) with ordinality u(no, fresh, ord)
			order by u.ord);
	end if;

	insert into {{.schema}}.inbox (lane_id, position, received_at, occurred_at, sequence,
		source_offset, source_partition, segment, event_id, aggregate_id, event_type,
		source_topic, headers, payload)
	select lane_of[u.no], last_of[u.no] + u.nth, stored_at, coalesce(u.occurred_at, stored_at), u.sequence,
		u.off, u.partition, current_segment, u.event_id, names[u.no], u.event_type,
		u.topic, u.headers, u.payload
	from unnest(fresh, nos, nths, event_ids, event_types, sequences, payloads, all_headers, occurred,
		topics, partitions, offsets)
		as u(fresh, no, nth, event_id, event_type, sequence, payload, headers, occurred_at,
			topic, partition, off)
	where u.fresh;

	-- The rows are locked, so they are where they were.
	with moved as (
		update {{.schema}}.aggregates a
		set last_position = last_of[m.no] + m.events, pending = true
		from (
			select u.no, count(*) as events
			from unnest(nos, fresh) u(no, fresh)
			where u.fresh
			group by u.no
		) m
		where a.ctid = row_of[m.no]
		returning a.lane_id
	)
	select array_agg(m.lane_id) into lanes from moved m;

	if strpos(outcomes, 'd') > 0 then
		select string_agg(case
				when u.fresh then 's'
				when i.aggregate_id = names[u.no] and i.event_type = u.event_type and i.payload = u.payload then 'd'
				else 'c' end, '' order by u.ord)
		into outcomes
		from unnest(fresh, nos, event_ids, event_types, payloads)
			with ordinality as u(fresh, no, event_id, event_type, payload, ord)
		left join lateral (
			select j.aggregate_id, j.event_type, j.payload
			from {{.schema}}.inbox j
			where not u.fresh and j.event_id = u.event_id
			limit 1
		) i on true;
	end if;

	if cardinality(lanes) > 0 and pg_notification_queue_usage() < 0.5 then
		wake := array_to_string(lanes, ',');
		perform pg_notify({{.channel}},
			concat(process_id || ':', case when length(wake) < 7900 then wake else '*' end));
	end if;
end $$;

-- stage lays events beside the inbox, for place_staged to store them when the
-- transaction commits. It locks nothing. outcomes says what is known now of each
-- event, as in store; what is known to be a duplicate is not staged.
create function {{.schema}}.stage(
	event_ids text[], aggregate_ids text[], event_types text[], sequences bigint[],
	payloads bytea[], all_headers jsonb[], occurred timestamptz[], out outcomes text)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	mine xid8 := pg_current_xact_id();
	fresh boolean[];
begin
	fresh := array(
		select row_number() over (partition by u.event_id collate "C" order by u.ord) = 1
			and (select true from {{.schema}}.staged s where s.xid = mine and s.event_id = u.event_id limit 1) is null
			and (select true from {{.schema}}.inbox i where i.event_id = u.event_id limit 1) is null
		from unnest(event_ids) with ordinality u(event_id, ord)
		order by u.ord);

	insert into {{.schema}}.staged (event_id, aggregate_id, event_type, sequence, payload, headers, occurred_at)
	select u.event_id, u.aggregate_id, u.event_type, u.sequence, u.payload, u.headers, u.occurred_at
	from unnest(fresh, event_ids, aggregate_ids, event_types, sequences, payloads, all_headers, occurred)
		with ordinality as u(fresh, event_id, aggregate_id, event_type, sequence, payload, headers, occurred_at, ord)
	where u.fresh
	order by u.ord;

	select string_agg(case
			when u.fresh then 's'
			when i.aggregate_id = u.aggregate_id and i.event_type = u.event_type and i.payload = u.payload then 'd'
			else 'c' end, '' order by u.ord)
	into outcomes
	from unnest(fresh, event_ids, aggregate_ids, event_types, payloads)
		with ordinality as u(fresh, event_id, aggregate_id, event_type, payload, ord)
	left join lateral (
		select j.aggregate_id, j.event_type, j.payload
		from {{.schema}}.inbox j where not u.fresh and j.event_id = u.event_id
		union all
		select j.aggregate_id, j.event_type, j.payload
		from {{.schema}}.staged j where not u.fresh and j.xid = mine and j.event_id = u.event_id
		limit 1
	) i on true;
end $$;

-- place_staged gives the transaction's staged events their positions, all of
-- them at once, when the transaction commits. It runs once a row nevertheless:
-- inboxd.placed tells the later runs that their row was among them.
--
-- It stores again from its savepoint when somebody stored one of the ids for
-- another aggregate at the same moment: that event is a duplicate then.
create function {{.schema}}.place_staged() returns trigger
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	b record;
begin
	if new.ord <= nullif(current_setting('inboxd.placed', true), '')::bigint then
		return null;
	end if;
	with mine as (
		delete from {{.schema}}.staged s where s.xid = new.xid
		returning s.*
	), numbered as (
		select m.*, dense_rank() over (order by m.aggregate_id collate "C") as no,
			row_number() over (partition by m.aggregate_id collate "C" order by m.ord) as nth
		from mine m
	)
	select array_agg(distinct n.aggregate_id collate "C") as names, max(n.ord) as last,
		array_agg(n.no::integer order by n.ord) as nos, array_agg(n.nth::integer order by n.ord) as nths,
		array_agg(n.event_id order by n.ord) as event_ids, array_agg(n.event_type order by n.ord) as event_types,
		array_agg(n.sequence order by n.ord) as sequences, array_agg(n.payload order by n.ord) as payloads,
		array_agg(n.headers order by n.ord) as headers, array_agg(n.occurred_at order by n.ord) as occurred
	into b
	from numbered n;
	if b.names is null then
		return null;
	end if;
	for attempt in 1..20 loop
		begin
			perform {{.schema}}.store(b.names, b.nos, b.nths, b.event_ids, b.event_types, b.sequences,
				b.payloads, b.headers, b.occurred, null, null, null, null);
			exit;
		exception when unique_violation then
			if attempt = 20 or current_setting('transaction_isolation') <> 'read committed' then
				raise exception 'an event with the same id is being stored: %', sqlerrm using errcode = '40001';
			end if;
		end;
	end loop;
	perform set_config('inboxd.placed', b.last::text, true);
	return null;
end $$;

create constraint trigger staged_at_commit
after insert on {{.schema}}.staged
deferrable initially deferred
for each row execute function {{.schema}}.place_staged();
