-- A breaker is open while something that the handlers of an event type depend on
-- is down. The type's lanes wait, paused, without using up attempts; one of them
-- at a time is run to find out whether it is back.

-- trip pauses a claimed lane whose head met the dependency that is down, and
-- opens the breaker of the head's type, if it is not open.
create function {{.schema}}.trip(
	lane bigint, at_cursor bigint, of_type text, message text, fingerprint text, probe_after interval)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
	opened boolean;
begin
	update {{.schema}}.lanes l
	set state = 'paused', version = l.version + 1, crashes = 0, next_attempt_at = null,
		since = clock_timestamp(), error_at = clock_timestamp(),
		error_message = trip.message, error_fingerprint = trip.fingerprint,
		paused_by = 'inboxd', paused_from = 'ready', paused_type = of_type, paused_reason = trip.message
	where l.lane_id = lane and l.cursor = at_cursor;
	if not found then
		raise exception 'lane moved under its lock' using errcode = 'IBX02';
	end if;
	delete from {{.schema}}.failures f where f.lane_id = lane and f.position = at_cursor + 1 and f.crash;
	insert into {{.schema}}.breakers as b (event_type, reason, fingerprint, next_probe_at)
	values (of_type, trip.message, trip.fingerprint, clock_timestamp() + probe_after)
	on conflict (event_type) do update
	set probing = null, reason = excluded.reason, fingerprint = excluded.fingerprint
	where b.probing = lane
	returning b.xmax = 0 into opened;
	if opened then
		insert into {{.schema}}.audit (actor, action, aggregate_id, reason, detail)
		select 'inboxd', 'breaker-open', l.aggregate_id, trip.message,
			jsonb_build_object('event_type', of_type, 'fingerprint', trip.fingerprint)
		from {{.schema}}.lanes l where l.lane_id = lane;
	end if;
end $$;

-- hold pauses lanes whose head is of a type with an open breaker, if they are as
-- they were loaded. It answers those that it did not pause, and that nobody else
-- has: they are to run, for the breaker has closed or they are its probe.
create function {{.schema}}.hold(lane_ids bigint[], cursors bigint[], versions integer[], of_type text)
returns bigint[]
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	b {{.schema}}.breakers;
	locked bigint[];
begin
	select * into b from {{.schema}}.breakers x where x.event_type = of_type for share;
	if not found then
		return lane_ids;
	end if;
	locked := array(
		select k.lane_id
		from unnest(lane_ids, cursors, versions) w(lane_id, cursor, version)
		cross join lateral (
			select l.lane_id from {{.schema}}.lanes l
			where l.lane_id = w.lane_id and l.cursor = w.cursor and l.version = w.version
				and l.state in ('ready', 'backoff') and l.lane_id is distinct from b.probing
			limit 1
			for update skip locked
		) k);
	update {{.schema}}.lanes l
	set state = 'paused', version = l.version + 1, next_attempt_at = null, since = clock_timestamp(),
		error_at = clock_timestamp(), error_message = b.reason, error_fingerprint = b.fingerprint,
		paused_by = 'inboxd', paused_from = 'ready', paused_type = of_type, paused_reason = b.reason
	where l.lane_id = any(locked);
	return array(select u.lane_id from unnest(lane_ids) u(lane_id) where u.lane_id = b.probing);
end $$;

-- probe gives back one lane of each breaker whose time it is: it runs, and its
-- outcome tells whether what was down is back. The wait until the next probe
-- doubles up to most. Only types that the process has a handler for are probed.
create function {{.schema}}.probe(types text[], first_wait interval, most interval) returns setof bigint
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
	b {{.schema}}.breakers;
	lane bigint;
begin
	for b in
		select * from {{.schema}}.breakers x
		where x.event_type = any(types) and x.next_probe_at <= clock_timestamp()
		order by x.event_type
		for update skip locked
	loop
		select l.lane_id into lane from {{.schema}}.lanes l
		where l.paused_type = b.event_type
		order by l.lane_id
		limit 1
		for update skip locked;
		if not found then
			-- All its lanes are gone: what is down shows at the next event.
			perform {{.schema}}.close_breaker(b.event_type, 'inboxd', 'no lane waits for it');
			continue;
		end if;
		-- Due at once, so that it runs even if this process dies now.
		update {{.schema}}.lanes l
		set state = 'backoff', next_attempt_at = clock_timestamp(), version = l.version + 1,
			paused_by = null, paused_reason = null, paused_from = null, paused_type = null
		where l.lane_id = lane;
		update {{.schema}}.breakers x
		set probing = lane, probes = x.probes + 1,
			next_probe_at = clock_timestamp() + least(first_wait * power(2, least(x.probes + 1, 16)), most)
		where x.event_type = b.event_type;
		return next lane;
	end loop;
end $$;

-- close_breaker ends the wait for a type. Its lanes are given back by go_on.
create function {{.schema}}.close_breaker(of_type text, actor text, reason text) returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
	delete from {{.schema}}.breakers b where b.event_type = of_type;
	if not found then
		return false;
	end if;
	insert into {{.schema}}.audit (actor, action, reason, detail)
	values (close_breaker.actor, 'breaker-close', nullif(close_breaker.reason, ''), jsonb_build_object('event_type', of_type));
	return true;
end $$;

-- go_on gives back lanes that a breaker paused which is closed by now, and
-- answers how many; the caller goes on until there is none.
create function {{.schema}}.go_on(page integer) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	closed text := '';
	freed bigint[];
begin
	-- From one type of the index to the next.
	loop
		select l.paused_type into closed from {{.schema}}.lanes l
		where l.paused_type > closed
		order by l.paused_type
		limit 1;
		if not found then
			return 0;
		end if;
		exit when not exists (select from {{.schema}}.breakers b where b.event_type = closed);
	end loop;
	freed := array(
		select l.lane_id from {{.schema}}.lanes l
		where l.paused_type = closed
		order by l.lane_id
		limit page
		for update skip locked);
	update {{.schema}}.lanes l
	set state = 'ready', version = l.version + 1, since = clock_timestamp(),
		paused_by = null, paused_reason = null, paused_from = null, paused_type = null
	where l.lane_id = any(freed);
	perform 1 from {{.schema}}.aggregates a
	where a.lane_id = any(freed) order by a.aggregate_id for update;
	update {{.schema}}.aggregates a set parked = false, pending = true where a.lane_id = any(freed);
	if cardinality(freed) > 0 then
		perform pg_notify({{.channel}}, case when cardinality(freed) <= 300 then array_to_string(freed, ',') else '*' end);
	end if;
	return cardinality(freed);
end $$;

-- tend does for a process, with each of its heartbeats, what no lane's turn does:
-- it makes the changes that operators left, gives back lanes whose breaker has
-- closed (freed of them; a full page means that there may be more), and begins
-- probes. open are the types with an open breaker.
create function {{.schema}}.tend(
	types text[], first_wait interval, most interval, page integer,
	out open text[], out probes bigint[], out freed integer)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
	if exists (select from {{.schema}}.changes) then
		perform {{.schema}}.make_changes(null);
	end if;
	probes := array(select {{.schema}}.probe(types, first_wait, most));
	freed := {{.schema}}.go_on(page);
	open := array(select b.event_type from {{.schema}}.breakers b);
end $$;
