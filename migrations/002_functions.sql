-- The steps of ingest and of a lane. Each function is one step, each statement
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
begin
	lock table only {{.schema}}.inbox, only {{.schema}}.runs in share update exclusive mode;
	select coalesce(max(s.segment), 0) + 1 into fresh from {{.schema}}.segments s;
	foreach parent in array array['inbox', 'runs'] loop
		execute format('create table {{.schema}}.%I (like {{.schema}}.%I including all)
			with (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02)',
			parent || '_' || fresh, parent);
	end loop;
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
-- NOTIFY, unless the server's queue of notifications fills up because of some
-- listener that does not read: the sweep finds them then, and storing goes on.
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
		perform pg_notify({{.channel}}, case when length(wake) < 7900 then wake else '*' end);
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

-- load reads lanes and their next events, without a lock. An event's payload is
-- null when it is larger than large bytes or may have been edited: the reader
-- fetches it by payload() when its turn comes. traced says that the last transaction that locked the lane's row ended
-- without writing to it: a process died there, or a run was given up. (Of a row
-- that was locked and then written by one transaction, xmax is that of xmin.)
create function {{.schema}}.load(lane_ids bigint[], per_lane integer, large integer)
returns table (
	lane_id bigint, aggregate_id text, cursor bigint, version integer, generation integer,
	runnable boolean, attempts integer, crashes integer, traced boolean, parked boolean, replayed_to bigint, careful_to bigint,
	"position" bigint, segment integer, event_id text, event_type text, sequence bigint,
	occurred_at timestamptz, received_at timestamptz,
	source_topic text, source_partition integer, source_offset bigint,
	headers jsonb, payload bytea)
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
	return query
	select l.lane_id, l.aggregate_id, l.cursor, l.version, l.generation,
		l.state = 'ready' or (l.state = 'backoff' and l.next_attempt_at <= clock_timestamp()),
		l.attempts, l.crashes, l.traced, l.state <> 'ready', l.replayed_to, l.careful_to,
		e.position, e.segment, e.event_id, e.event_type, e.sequence, e.occurred_at, e.received_at,
		e.source_topic, e.source_partition, e.source_offset, e.headers,
		case when octet_length(e.payload) <= large and (l.edited_to is null or e.position > l.edited_to) then e.payload end
	from unnest(lane_ids) w(lane_id)
	cross join lateral (
		select k.*, k.xmax::text <> '0' and k.xmax <> k.xmin as traced
		from {{.schema}}.lanes k where k.lane_id = w.lane_id limit 1
	) l
	left join lateral (
		select * from {{.schema}}.inbox i
		where i.lane_id = l.lane_id and i.segment >= l.segment and i.position > l.cursor
		order by i.position
		limit per_lane
	) e on true;
end $$;

-- payload is what a handler gets of an event: the edited payload, if there is one.
create function {{.schema}}.payload(lane bigint, at_position bigint, in_segment integer) returns bytea
language sql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
	select coalesce(
		(select e.payload from {{.schema}}.edits e where e.lane_id = lane and e.position = at_position),
		(select i.payload from {{.schema}}.inbox i
			where i.lane_id = lane and i.position = at_position and i.segment = in_segment))
$$;

-- claim locks lanes for the transaction that runs them, if they are still as
-- they were loaded; otherwise it fails with IBX01 and the transaction does
-- nothing. It never waits. Events were read before the lock was taken; that is
-- safe because the cursor is compared under the lock, and because events never
-- change and positions are dense.
--
-- The shared advisory lock shows which sessions run lanes for which process, so
-- that others can end them when the process is no longer heard of.
--
-- The time-outs, in milliseconds, hold for this transaction, and so does
-- inboxd.turn: in_turn() sees by it that the transaction is still the same.
create function {{.schema}}.claim(
	process_id integer, lane_ids bigint[], cursors bigint[], versions integer[],
	statement_ms integer, lock_ms integer, idle_ms integer)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	claimed bigint[];
begin
	perform pg_advisory_xact_lock_shared({{.gate}}, process_id),
		set_config('statement_timeout', statement_ms::text, true),
		set_config('lock_timeout', lock_ms::text, true),
		set_config('idle_in_transaction_session_timeout', idle_ms::text, true),
		set_config('inboxd.turn', 'open', true);
	claimed := array(
		select k.lane_id
		from unnest(lane_ids, cursors, versions) w(lane_id, cursor, version)
		cross join lateral (
			select l.lane_id from {{.schema}}.lanes l
			where l.lane_id = w.lane_id and l.cursor = w.cursor and l.version = w.version
				and (l.state = 'ready' or (l.state = 'backoff' and l.next_attempt_at <= clock_timestamp()))
			limit 1
			for update skip locked
		) k);
	if cardinality(claimed) < cardinality(lane_ids) then
		raise exception 'lane moved: of % lanes % can be claimed', cardinality(lane_ids), cardinality(claimed)
			using errcode = 'IBX01', detail = array_to_string(
				array(select u.lane_id from unnest(lane_ids) u(lane_id) where u.lane_id <> all(claimed)), ',');
	end if;
	if exists (select from {{.schema}}.changes c where c.lane_id = any(lane_ids)) then
		raise exception 'an operator''s change comes first'
			using errcode = 'IBX04', detail = array_to_string(
				array(select distinct c.lane_id from {{.schema}}.changes c where c.lane_id = any(lane_ids)), ',');
	end if;
end $$;

-- in_turn fails with IBX03 unless claim ran in this very transaction: a handler
-- that committed on its own gave the lane's lock away.
create function {{.schema}}.in_turn() returns void
language plpgsql as $$
begin
	if current_setting('inboxd.turn', true) is distinct from 'open' then
		raise exception 'the handler ended the lane''s transaction with a statement of its own (commit or rollback); what it committed stands without the lane''s progress'
			using errcode = 'IBX03';
	end if;
end $$;

-- advance records that events firsts to lasts of the claimed lanes are done:
-- the cursor and the ledger, in the transaction of their effects. Lanes that
-- were backing off (unpark) go back into the sweep's reach in the same
-- transaction: a parked lane is never ready. Advisory locks that a handler took
-- for its session are released.
create function {{.schema}}.advance(
	process integer, lane_ids bigint[], firsts bigint[], lasts bigint[], segments integer[], unpark bigint[])
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	advanced integer;
begin
	perform {{.schema}}.in_turn(), pg_advisory_unlock_all();
	with moved as (
		update {{.schema}}.lanes l
		set cursor = lasts[array_position(lane_ids, l.lane_id)],
			segment = segments[array_position(lane_ids, l.lane_id)],
			state = 'ready', attempts = 0, crashes = 0,
			next_attempt_at = null, error_message = null, error_fingerprint = null, error_at = null
		where l.lane_id = any(lane_ids) and l.cursor = firsts[array_position(lane_ids, l.lane_id)] - 1
		returning l.lane_id, l.generation, l.cursor as last, l.segment
	)
	insert into {{.schema}}.runs (lane_id, last_position, first_position, at, generation, process_id, segment, kind)
	select m.lane_id, m.last, firsts[array_position(lane_ids, m.lane_id)], clock_timestamp(), m.generation, process, m.segment, 'r' from moved m;
	get diagnostics advanced = row_count;
	if advanced < cardinality(lane_ids) then
		raise exception 'lane moved under its lock: of % lanes % could advance', cardinality(lane_ids), advanced
			using errcode = 'IBX02';
	end if;
	if cardinality(unpark) > 0 then
		perform 1 from {{.schema}}.aggregates a
		where a.lane_id = any(unpark) order by a.aggregate_id for update; -- as store() does
		update {{.schema}}.aggregates a set parked = false where a.lane_id = any(unpark);
	end if;
end $$;

-- under_way says whether a process other than this one, and alive, has counted an
-- attempt of the head that has not ended.
create function {{.schema}}.under_way(lane bigint, at_cursor bigint, process integer) returns boolean
language sql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
	select exists (
		select from {{.schema}}.failures f
		join {{.schema}}.processes p on p.process_id = f.process_id
		where f.lane_id = lane and f.position = at_cursor + 1 and f.crash
			and f.process_id is distinct from process
			and p.seen_at > clock_timestamp() - interval '2.5 s')
$$;

-- begin_careful counts an attempt before it runs: it is committed at once, so
-- that a process that dies in the attempt has used it up. It answers how many
-- attempts the head has used now, or null when the lane is not as it was loaded.
-- The version grows, so that nobody who loaded the lane before runs it besides.
--
-- Any of the next batch events may have been the one that was running: the first
-- careful run of a lane notes up to which one care is needed.
create function {{.schema}}.begin_careful(
	process integer, lane bigint, at_cursor bigint, at_version integer, batch integer,
	out used integer, out careful_to bigint)
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
	perform 1 from {{.schema}}.lanes l where l.lane_id = lane for update skip locked;
	if not found or {{.schema}}.under_way(lane, at_cursor, process) then
		return;
	end if;
	update {{.schema}}.lanes l
	set crashes = l.crashes + 1, version = l.version + 1,
		careful_to = case when l.careful_to > at_cursor then l.careful_to else least(at_cursor + batch, (
			select a.last_position from {{.schema}}.aggregates a where a.lane_id = lane)) end
	where l.lane_id = lane and l.cursor = at_cursor and l.version = at_version
		and (l.state = 'ready' or (l.state = 'backoff' and l.next_attempt_at <= clock_timestamp()))
	returning l.attempts + l.crashes, l.careful_to into used, careful_to;
	if found then
		insert into {{.schema}}.failures (lane_id, position, attempt, crash, process_id, fingerprint, message)
		values (lane, at_cursor + 1, used, true, process, 'process-died',
			'the process ended, or lost its connection, during the attempt');
	end if;
end $$;

-- end_careful takes back what begin_careful counted: the attempt ended after
-- all. When it ended well (process is null), so did all that were counted before
-- it; when it was cut short, the process takes back its own, and waits no longer
-- than a second for whoever runs the lane meanwhile.
create function {{.schema}}.end_careful(process integer, lane bigint, at_cursor bigint) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
	if process is null then
		update {{.schema}}.lanes l set crashes = 0 where l.lane_id = lane and l.cursor = at_cursor;
		delete from {{.schema}}.failures f where f.lane_id = lane and f.position = at_cursor + 1 and f.crash;
		return;
	end if;
	perform set_config('lock_timeout', '1000', true);
	perform 1 from {{.schema}}.lanes l where l.lane_id = lane for update;
	with mine as (
		delete from {{.schema}}.failures f
		where f.lane_id = lane and f.position = at_cursor + 1 and f.crash and f.process_id = process
		returning 1
	)
	update {{.schema}}.lanes l set crashes = greatest(l.crashes - m.taken, 0)
	from (select count(*)::integer as taken from mine) m
	where l.lane_id = lane and l.cursor = at_cursor and m.taken > 0;
end $$;

-- fail records a failed attempt of the head of a claimed lane: a backoff, or
-- stuck when retry_after is null. The version grows: whoever loaded the lane
-- before knows neither its attempts nor that it may be parked.
create function {{.schema}}.fail(
	process integer, lane bigint, at_cursor bigint, counted boolean, retry_after interval,
	message text, fingerprint text, detail jsonb)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
	used integer;
begin
	update {{.schema}}.lanes l
	set attempts = l.attempts + counted::integer, crashes = 0, version = l.version + 1,
		state = case when retry_after is null then 'stuck' else 'backoff' end,
		next_attempt_at = clock_timestamp() + retry_after,
		since = clock_timestamp(), error_at = clock_timestamp(),
		error_message = fail.message, error_fingerprint = fail.fingerprint
	where l.lane_id = lane and l.cursor = at_cursor
	returning l.attempts into used;
	if not found then
		raise exception 'lane moved under its lock' using errcode = 'IBX02';
	end if;
	delete from {{.schema}}.failures f where f.lane_id = lane and f.position = at_cursor + 1 and f.crash;
	if counted then
		insert into {{.schema}}.failures (lane_id, position, attempt, process_id, fingerprint, message, detail)
		values (lane, at_cursor + 1, used, process, fail.fingerprint, fail.message, fail.detail);
	end if;
end $$;

-- give_up makes a lane stuck whose head used up its attempts in processes that
-- died: no transaction was left to say so. It answers whether it did: an attempt
-- that is under way, or was taken back meanwhile, speaks against it.
create function {{.schema}}.give_up(
	lane bigint, at_cursor bigint, message text, fingerprint text, process integer default null)
returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
	perform 1 from {{.schema}}.lanes l where l.lane_id = lane for update skip locked;
	if not found or {{.schema}}.under_way(lane, at_cursor, process) then
		return false;
	end if;
	update {{.schema}}.lanes l
	set state = 'stuck', attempts = l.attempts + l.crashes, crashes = 0, next_attempt_at = null,
		version = l.version + 1,
		since = clock_timestamp(), error_at = clock_timestamp(),
		error_message = give_up.message, error_fingerprint = give_up.fingerprint
	where l.lane_id = lane and l.cursor = at_cursor and l.crashes > 0 and l.state in ('ready', 'backoff');
	if not found then
		return false;
	end if;
	update {{.schema}}.failures f set crash = false
	where f.lane_id = lane and f.position = at_cursor + 1 and f.crash;
	return true;
end $$;

-- skip passes over the head of a claimed lane and says so in the ledger and in
-- the audit.
create function {{.schema}}.skip(
	process integer, lane bigint, at_cursor bigint, actor text, reason text)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
	with moved as (
		update {{.schema}}.lanes l
		set cursor = i.position, segment = i.segment, state = 'ready', attempts = 0, crashes = 0,
			next_attempt_at = null, error_message = null, error_fingerprint = null, error_at = null,
			since = clock_timestamp()
		from {{.schema}}.inbox i
		where l.lane_id = lane and l.cursor = at_cursor
			and i.lane_id = l.lane_id and i.segment >= l.segment and i.position = at_cursor + 1
		returning l.lane_id, l.generation, i.position, i.segment, i.aggregate_id, i.event_id
	), ledger as (
		insert into {{.schema}}.runs (lane_id, last_position, first_position, at, generation, process_id, segment, kind)
		select m.lane_id, m.position, m.position, clock_timestamp(), m.generation, process, m.segment, 's' from moved m
	)
	insert into {{.schema}}.audit (actor, action, aggregate_id, event_id, reason)
	select skip.actor, 'skip', m.aggregate_id, m.event_id, skip.reason from moved m;
	if not found then
		raise exception 'lane moved under its lock' using errcode = 'IBX02';
	end if;
	update {{.schema}}.aggregates a set parked = false where a.lane_id = lane;
	delete from {{.schema}}.failures f where f.lane_id = lane and f.position = at_cursor + 1 and f.crash;
end $$;

-- settle puts right what the sweep goes by, for lanes that a worker left: a
-- lane whose events are done is no longer pending, one that is held is parked.
-- It answers the lanes that can run after all. It holds the rows that ingest
-- takes, so what it finds done is done; it waits for nobody and leaves out
-- lanes that are being stored to.
create function {{.schema}}.settle(lane_ids bigint[],
	out runnable bigint[], out held bigint[], out idle bigint[])
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	locked bigint[];
begin
	locked := array(
		select a.lane_id from {{.schema}}.aggregates a
		where a.lane_id = any(lane_ids) for update skip locked);
	with found as (
		select a.lane_id, a.row, a.last_position > l.cursor as work,
			l.state in ('stuck', 'paused', 'waiting')
				or (l.state = 'backoff' and l.next_attempt_at > clock_timestamp()) as held,
			a.pending, a.parked
		from unnest(locked) k(lane_id)
		cross join lateral (
			select g.ctid as row, g.* from {{.schema}}.aggregates g where g.lane_id = k.lane_id limit 1
		) a
		cross join lateral (
			select h.* from {{.schema}}.lanes h where h.lane_id = k.lane_id limit 1
		) l
	), changed as (
		update {{.schema}}.aggregates a
		set pending = f.work, parked = f.held
		from found f
		where a.ctid = f.row and (f.pending, f.parked) is distinct from (f.work, f.held)
	)
	select array_agg(f.lane_id) filter (where f.work and not f.held),
		array_agg(f.lane_id) filter (where f.held),
		array_agg(f.lane_id) filter (where not f.work and not f.held)
	into runnable, held, idle from found f;
end $$;

-- sweep answers a page of lanes that may have work, in order of lane_id, of this
-- process's share (shares = 1: of all).
create function {{.schema}}.sweep(after bigint, share integer, shares integer, page integer)
returns setof bigint
language sql stable
set plan_cache_mode = force_generic_plan set enable_bitmapscan = off set enable_sort = off set enable_seqscan = off set jit = off as $$
	select a.lane_id from {{.schema}}.aggregates a
	where a.pending and not a.parked and a.lane_id + 0 > after and a.lane_id % shares = share
	order by a.lane_id + 0
	limit page
$$;

-- stalled answers a page of lanes that may have work and belong to the shares of
-- other processes, and how far they are. Those that are no further a while later
-- wait for a process that cannot keep up, and may be run by one that can.
create function {{.schema}}.stalled(after bigint, share integer, shares integer, page integer)
returns table (lane_id bigint, cursor bigint)
language sql stable
set plan_cache_mode = force_generic_plan set enable_bitmapscan = off set enable_sort = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
	select a.lane_id, l.cursor
	from {{.schema}}.aggregates a
	cross join lateral (
		select k.cursor from {{.schema}}.lanes k where k.lane_id = a.lane_id limit 1
	) l
	where a.pending and not a.parked and a.lane_id + 0 > after and a.lane_id % shares <> share
	order by a.lane_id + 0
	limit page
$$;

-- due answers lanes whose backoff has ended, of this process's share, the one
-- that has waited longest first; next is the time until another one is due.
create function {{.schema}}.due(share integer, shares integer, page integer,
	out lanes bigint[], out next interval)
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_bitmapscan = off set enable_sort = off set enable_seqscan = off set jit = off as $$
declare
	-- One moment for both questions: no backoff can end between them.
	moment timestamptz := clock_timestamp();
begin
	lanes := array(
		select l.lane_id from {{.schema}}.lanes l
		where l.state = 'backoff' and l.next_attempt_at <= moment and l.lane_id % shares = share
		order by l.next_attempt_at
		limit page);
	select l.next_attempt_at - moment into next
	from {{.schema}}.lanes l
	where l.state = 'backoff' and l.next_attempt_at > moment
	order by l.next_attempt_at
	limit 1;
end $$;

-- release puts held lanes back to work, for an operator: the head runs again
-- now, its attempts counted from zero. The caller has locked the lanes.
create function {{.schema}}.release(lane_ids bigint[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
	update {{.schema}}.lanes l
	set state = 'ready', attempts = 0, crashes = 0, next_attempt_at = null, version = l.version + 1,
		since = clock_timestamp()
	where l.lane_id = any(lane_ids);
	perform 1 from {{.schema}}.aggregates a
	where a.lane_id = any(lane_ids) order by a.aggregate_id for update;
	update {{.schema}}.aggregates a set parked = false, pending = true
	where a.lane_id = any(lane_ids);
	perform pg_notify({{.channel}}, case when cardinality(lane_ids) <= 300 then array_to_string(lane_ids, ',') else '*' end);
end $$;

-- heartbeat says that the process lives, and answers the processes that share
-- the lanes now and those that were not heard of for a lease. All times are the
-- server's.
create function {{.schema}}.heartbeat(
	process integer, process_name text, busy bigint[], lease interval, fresh interval,
	out members integer[], out lost integer[])
language plpgsql
set jit = off as $$
begin
	update {{.schema}}.processes p set seen_at = clock_timestamp(), running = busy
	where p.process_id = process;
	if not found then
		-- It was taken for dead while it was frozen, and is back.
		insert into {{.schema}}.processes (process_id, name, running)
		overriding system value values (process, process_name, busy);
	end if;
	select array_agg(p.process_id order by p.process_id) filter (where p.seen_at >= clock_timestamp() - fresh),
		array_agg(p.process_id) filter (where p.seen_at < clock_timestamp() - lease)
	into members, lost
	from {{.schema}}.processes p;
end $$;

-- evict ends the sessions in which lost processes run lanes or store events:
-- what they hold is rolled back, whatever the processes believe. It needs the
-- same role as theirs, or pg_signal_backend.
create function {{.schema}}.evict(process_ids integer[], lease interval) returns integer
language plpgsql
set jit = off as $$
declare
	ended integer;
begin
	select count(pg_terminate_backend(k.pid)) into ended
	from {{.schema}}.processes p
	join pg_locks k on k.locktype = 'advisory' and k.classid::bigint = {{.gate}}
		and k.objid::bigint = p.process_id and k.objsubid = 2
		and k.database = (select d.oid from pg_database d where d.datname = current_database())
	where p.process_id = any(process_ids) and p.seen_at < clock_timestamp() - lease;
	delete from {{.schema}}.processes p
	where p.process_id = any(process_ids) and p.seen_at < clock_timestamp() - lease;
	return ended;
end $$;

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
	insert into {{.schema}}.audit (actor, action, aggregate_id, event_id, reason)
	values (edit.actor, case when patched is null then 'revert' else 'edit' end, l.aggregate_id, e.event_id, edit.reason);
	return null;
end $$;

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
	counts bigint[], errors text[], error_times timestamptz[], gone text[], why_gone text[])
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
	insert into {{.schema}}.sources as s (consumer_group, topic, partition, state, position, committed, end_offset,
		stored, duplicates, conflicts, quarantined, ignored, member, process, error_message, error_at)
	select reader, n.topic, n.partition, n.state, n.position, n.committed, n.end_offset,
		counts[5*n.ord-4], counts[5*n.ord-3], counts[5*n.ord-2], counts[5*n.ord-1], counts[5*n.ord],
		case when n.position is not null then reader_member end,
		case when n.position is not null then reader_process end, n.error, n.error_at
	from unnest(topics, partitions, states, positions, commits, ends, errors, error_times)
		with ordinality n(topic, partition, state, position, committed, end_offset, error, error_at, ord)
	order by n.topic collate "C", n.partition
	on conflict on constraint sources_pkey do update
	set stored = s.stored + excluded.stored, duplicates = s.duplicates + excluded.duplicates,
		conflicts = s.conflicts + excluded.conflicts, quarantined = s.quarantined + excluded.quarantined,
		ignored = s.ignored + excluded.ignored,
		(state, position, committed, end_offset, member, process, seen_at, error_message, error_at) = (
			select excluded.state, excluded.position, excluded.committed, excluded.end_offset, excluded.member,
				excluded.process, clock_timestamp(), excluded.error_message, excluded.error_at
			where excluded.position is not null
			union all
			select s.state, s.position, s.committed, s.end_offset, s.member,
				s.process, s.seen_at, s.error_message, s.error_at
			where excluded.position is null);
	update {{.schema}}.sources s
	set state = 'missing', member = null, process = null, error_message = g.why, error_at = clock_timestamp()
	from unnest(gone, why_gone) g(topic, why)
	where s.consumer_group = reader and s.topic = g.topic
		and (s.state, s.error_message) is distinct from ('missing', g.why);
end $$;
