-- What operators do to lanes and events.

-- who is the actor of a change as it stands on record: the database's user, and
-- the person or program that was named, if any.
create function {{.schema}}.who(named text) returns text
language sql stable as $$
	select session_user || coalesce('/' || nullif(named, ''), '')
$$;

-- change makes one change of a lane for an operator, and its row in the audit.
-- The caller's transaction has the lane's lock. event is the head that was seen;
-- null: whatever it is. actor is as who() gives it. It answers null when the
-- change was made, or why not:
--
--	moved    the event is not the head any more
--	nothing  there is nothing to retry, skip, replay or resume
--	paused   the lane is paused already, or by a person, who has to resume it
--	gone     the event to replay from is not in the inbox
--
-- A retry or a resume of a lane that a breaker paused closes the breaker: the
-- operator says that what was down is back.
create function {{.schema}}.change(
	lane bigint, action text, event text, from_position bigint, actor text, reason text)
returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	l {{.schema}}.lanes;
	head record;
	from_segment integer;
	changed {{.schema}}.lanes;
begin
	select * into l from {{.schema}}.lanes k where k.lane_id = lane for update;
	select i.position, i.segment, i.event_id into head
	from {{.schema}}.inbox i
	where i.lane_id = lane and i.segment >= l.segment and i.position > l.cursor
	order by i.position
	limit 1;
	if event is not null and head.event_id is distinct from event then
		return 'moved';
	end if;
	changed := l;
	changed.version := l.version + 1;
	changed.since := clock_timestamp();

	if action in ('retry', 'resume') and l.paused_type is not null then
		perform {{.schema}}.close_breaker(l.paused_type, actor, reason);
	end if;
	case action
	when 'retry' then
		if l.state = 'paused' and l.paused_type is null then
			return 'paused';
		elsif head.position is null or l.state not in ('stuck', 'backoff', 'paused') then
			return 'nothing';
		end if;
		changed.state := 'ready';
		changed.attempts := 0;
		changed.crashes := 0;
	when 'pause' then
		if l.state = 'paused' and l.paused_type is null then
			return 'paused';
		end if;
		changed.paused_from := case when l.state = 'paused' then l.paused_from else l.state end;
		changed.state := 'paused';
		changed.paused_by := actor;
		changed.paused_reason := reason;
		changed.paused_type := null;
	when 'resume' then
		if l.state <> 'paused' then
			return 'nothing';
		end if;
		changed.state := coalesce(l.paused_from, 'ready');
		if changed.state = 'stuck' then
			changed.since := coalesce(l.error_at, changed.since); -- it was all the time
		end if;
	when 'skip' then
		if head.position is null then
			return 'nothing';
		end if;
		changed.cursor := head.position;
		changed.segment := head.segment;
	when 'replay' then
		select i.segment into from_segment
		from {{.schema}}.inbox i
		where i.lane_id = lane and i.position = from_position
		order by i.segment desc
		limit 1;
		if not found then
			return 'gone';
		elsif from_position > l.cursor then
			return 'nothing';
		end if;
		changed.cursor := from_position - 1;
		changed.segment := from_segment;
		changed.generation := l.generation + 1;
		changed.replayed_to := greatest(l.replayed_to, l.cursor);
	end case;
	if action in ('skip', 'replay') then
		changed.attempts := 0;
		changed.crashes := 0;
		changed.error_message := null;
		changed.error_fingerprint := null;
		changed.error_at := null;
		if l.state = 'paused' and l.paused_type is null then
			changed.paused_from := 'ready'; -- a person's pause stays
		else
			changed.state := 'ready';
		end if;
	end if;
	if changed.state <> 'paused' then
		changed.paused_by := null;
		changed.paused_reason := null;
		changed.paused_from := null;
		changed.paused_type := null;
	end if;
	if changed.state <> 'backoff' and coalesce(changed.paused_from, '') <> 'backoff' then
		changed.next_attempt_at := null;
	end if;

	update {{.schema}}.lanes k
	set (cursor, segment, generation, replayed_to, version, attempts, crashes, next_attempt_at, since, state,
			error_message, error_fingerprint, error_at, paused_by, paused_reason, paused_from, paused_type)
		= (select changed.cursor, changed.segment, changed.generation, changed.replayed_to, changed.version,
			changed.attempts, changed.crashes, changed.next_attempt_at, changed.since, changed.state,
			changed.error_message, changed.error_fingerprint, changed.error_at,
			changed.paused_by, changed.paused_reason, changed.paused_from, changed.paused_type)
	where k.lane_id = lane;
	if action in ('retry', 'skip', 'replay') then
		delete from {{.schema}}.failures f where f.lane_id = lane and f.position = l.cursor + 1 and f.crash;
	end if;
	if action = 'skip' then
		insert into {{.schema}}.runs (lane_id, last_position, first_position, at, generation, process_id, segment, kind)
		values (lane, head.position, head.position, clock_timestamp(), l.generation, 0, head.segment, 's');
	end if;
	perform 1 from {{.schema}}.aggregates a where a.lane_id = lane for update;
	update {{.schema}}.aggregates a
	set parked = changed.state in ('stuck', 'paused', 'waiting', 'backoff'), pending = true
	where a.lane_id = lane;
	insert into {{.schema}}.audit (actor, action, aggregate_id, event_id, reason, detail)
	values (change.actor, change.action, l.aggregate_id,
		case when action = 'replay' then (select i.event_id from {{.schema}}.inbox i
			where i.lane_id = lane and i.position = from_position and i.segment = from_segment) else head.event_id end,
		nullif(change.reason, ''),
		jsonb_strip_nulls(jsonb_build_object('state', l.state, 'attempts', l.attempts + l.crashes,
			'fingerprint', l.error_fingerprint, 'from_position', from_position,
			'to_position', case when action = 'replay' then l.cursor end)));
	perform pg_notify({{.channel}}, lane::text);
	return null;
end $$;

-- request_change leaves a change for whoever runs the lane now to make when it
-- is done.
create function {{.schema}}.request_change(
	lane bigint, action text, event text, from_position bigint, named text, reason text)
returns void
language sql as $$
	insert into {{.schema}}.changes (lane_id, action, event_id, to_position, actor, reason)
	values (lane, action, event, from_position, {{.schema}}.who(named), reason)
$$;

-- make_changes makes the changes that were left, in their order, of these lanes
-- (null: of all), but for lanes that are locked. One that does not fit any more
-- goes on record as refused. It answers the lanes.
create function {{.schema}}.make_changes(lane_ids bigint[]) returns bigint[]
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
	lane bigint;
	c {{.schema}}.changes;
	why text;
	made bigint[] := '{}';
begin
	for lane in
		select x.lane_id from {{.schema}}.changes x
		where lane_ids is null or x.lane_id = any(lane_ids)
		group by x.lane_id
		order by x.lane_id
		limit 100
	loop
		perform 1 from {{.schema}}.lanes l where l.lane_id = lane for update skip locked;
		continue when not found;
		for c in select * from {{.schema}}.changes x where x.lane_id = lane order by x.change_id loop
			why := {{.schema}}.change(lane, c.action, c.event_id, c.to_position, c.actor, c.reason);
			if why is not null then
				insert into {{.schema}}.audit (actor, action, aggregate_id, event_id, reason, detail)
				select c.actor, 'refused', l.aggregate_id, c.event_id, c.reason,
					jsonb_build_object('action', c.action, 'why', why)
				from {{.schema}}.lanes l where l.lane_id = lane;
			end if;
			delete from {{.schema}}.changes x where x.change_id = c.change_id;
		end loop;
		made := made || lane;
	end loop;
	return made;
end $$;

-- edit puts another payload in the place of an event's own, while the event is
-- unprocessed; patched null takes it back. The caller's transaction has the
-- lane's lock. It answers null when that was done, or why not: 'gone' (there is
-- no such event), 'processed', 'nothing' (there is no edit to take back).
create function {{.schema}}.edit(lane bigint, at_position bigint, patched bytea, actor text, reason text)
returns text
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
	l {{.schema}}.lanes;
	e record;
begin
	select * into l from {{.schema}}.lanes k where k.lane_id = lane for update;
	select i.event_id into e from {{.schema}}.inbox i where i.lane_id = lane and i.position = at_position limit 1;
	if not found then
		return 'gone';
	elsif at_position <= l.cursor then
		return 'processed';
	end if;
	if patched is null then
		delete from {{.schema}}.edits d where d.lane_id = lane and d.position = at_position;
		if not found then
			return 'nothing';
		end if;
	else
		insert into {{.schema}}.edits (lane_id, position, payload, actor, reason)
		values (lane, at_position, patched, edit.actor, edit.reason)
		on conflict (lane_id, position) do update
		set payload = excluded.payload, actor = excluded.actor, reason = excluded.reason, at = clock_timestamp();
	end if;
	-- Whoever has read the payload before may not run the event with it.
	update {{.schema}}.lanes k
	set version = k.version + 1, edited_to = greatest(k.edited_to, at_position)
	where k.lane_id = lane;
	insert into {{.schema}}.audit (actor, action, aggregate_id, event_id, reason, detail)
	values (edit.actor, case when patched is null then 'revert' else 'edit' end, l.aggregate_id, e.event_id, edit.reason,
		case when patched is not null then
			jsonb_build_object('bytes', length(patched), 'sha256', encode(sha256(patched), 'hex')) end);
	return null;
end $$;
