-- The steps of lanes: what workers, the sweep and the heartbeat do.

-- fate says what became of a transaction, by the 32 bits of its number that a row
-- shows: aborted if it was rolled back or died, in progress, or committed. Its
-- number is one of the two billion before the next one, or of those after it, if
-- it began since.
create function {{.schema}}.fate(transaction xid) returns text
language plpgsql stable as $$
declare
	next bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
	ahead bigint := (transaction::text::bigint - next) & 4294967295;
begin
	if ahead < 2147483648 then
		return 'in progress';
	end if;
	ahead := ahead - 4294967296;
	return case when next + ahead > 2 then coalesce(pg_xact_status((next + ahead)::text::xid8), 'committed') else 'committed' end;
end $$;

-- load reads lanes and their next events, without a lock. An event's payload is
-- null when it is larger than large bytes or may have been edited: the reader
-- fetches it by payload() when its turn comes. traced says that the last
-- transaction that locked the lane's row did not commit: a process died there, or
-- a run was given up. (Of a row that was locked and then written by one
-- transaction, xmax is that of xmin.)
--
-- With a position, the events after it are read instead of those after the cursor:
-- whoever runs a lane reads on while what it knows of it runs.
create function {{.schema}}.load(lane_ids bigint[], per_lane integer, large integer, after bigint default null)
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
		select k.*, k.xmax <> '0' and k.xmax <> k.xmin and {{.schema}}.fate(k.xmax) = 'aborted' as traced
		from {{.schema}}.lanes k where k.lane_id = w.lane_id limit 1
	) l
	left join lateral (
		select * from {{.schema}}.inbox i
		where i.lane_id = l.lane_id and i.segment >= l.segment and i.position > coalesce(after, l.cursor)
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

-- changes_first fails with IBX04, naming the lanes that an operator's change waits
-- for: it is made before anything else of theirs runs.
create function {{.schema}}.changes_first(lane_ids bigint[]) returns void
language plpgsql stable
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
	raise exception 'an operator''s change comes first'
		using errcode = 'IBX04', detail = array_to_string(
			array(select distinct c.lane_id from {{.schema}}.changes c where c.lane_id = any(lane_ids)), ',');
end $$;

-- claim locks lanes for the transaction that runs them, if they are still as
-- they were loaded; otherwise it fails with IBX01 and the transaction does
-- nothing. It never waits. Events were read before the lock was taken; that is
-- safe because the cursor is compared under the lock, and because events never
-- change and positions are dense.
--
-- What another process runs, or has run meanwhile, shows by an advisory lock and by
-- a look without a lock: a row that was locked and not written to would be taken
-- for the trace of a process that died.
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
			limit 1
		) k
		where pg_try_advisory_xact_lock({{.lane_gate}}, (w.lane_id % 2147483647)::integer));
	if cardinality(claimed) = cardinality(lane_ids) then
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
	end if;
	if cardinality(claimed) < cardinality(lane_ids) then
		raise exception 'lane moved: of % lanes % can be claimed', cardinality(lane_ids), cardinality(claimed)
			using errcode = 'IBX01', detail = array_to_string(
				array(select u.lane_id from unnest(lane_ids) u(lane_id) where u.lane_id <> all(claimed)), ',');
	end if;
	if exists (select from {{.schema}}.changes c where c.lane_id = any(lane_ids)) then
		perform {{.schema}}.changes_first(lane_ids);
	end if;
end $$;

-- begin_taking has others see which process runs lanes in this session, and sets
-- the transaction's time-outs. That for locks is short while lanes are taken.
create function {{.schema}}.begin_taking(process integer, statement_ms integer, idle_ms integer, flush boolean)
returns text
language sql as $$
	select pg_advisory_xact_lock_shared({{.gate}}, process)::text
		|| set_config('statement_timeout', statement_ms::text, true)
		|| set_config('lock_timeout', '100', true)
		|| set_config('idle_in_transaction_session_timeout', idle_ms::text, true)
		|| case when flush then '' else set_config('synchronous_commit', 'off', true) end
$$;

-- not_taken says why not all of the lanes could be taken, and which could not.
create function {{.schema}}.not_taken(lane_ids bigint[], taken bigint[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
	if exists (select from {{.schema}}.changes c where c.lane_id = any(lane_ids)) then
		perform {{.schema}}.changes_first(lane_ids);
	end if;
	raise exception 'lane moved: of % lanes % can be taken', cardinality(lane_ids), cardinality(taken)
		using errcode = 'IBX01', detail = array_to_string(
			array(select u.lane_id from unnest(lane_ids) u(lane_id) where u.lane_id <> all(taken)), ',');
end $$;

-- take is claim and advance in one, of a lane whose turn is known whole before
-- any of it is sent: the cursor and the ledger go first, and the lane's row is
-- written once instead of locked and written. What holds for them holds here: a
-- lane that is not as it was loaded, or that somebody else holds, makes it fail
-- with IBX01 and is left as it is. Whether somebody holds the row shows by its
-- xmax, without a wait; for the moment between that look and the lock, the lock
-- time-out is short.
create function {{.schema}}.take(
	process integer, lane bigint, at_cursor bigint, at_version integer, last bigint, in_segment integer,
	statement_ms integer, lock_ms integer, idle_ms integer, flush boolean)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
	ignored text; -- an assignment costs less than perform
	at_generation integer;
begin
	ignored := {{.schema}}.begin_taking(process, statement_ms, idle_ms, flush);
	if pg_try_advisory_xact_lock({{.lane_gate}}, (lane % 2147483647)::integer) then
		update {{.schema}}.lanes l
		set cursor = last, segment = in_segment, attempts = 0, next_attempt_at = null,
			error_message = null, error_fingerprint = null, error_at = null
		where l.lane_id = lane and l.cursor = at_cursor and l.version = at_version and l.state = 'ready'
			and (l.xmax = '0' or {{.schema}}.fate(l.xmax) <> 'in progress')
			and not exists (select from {{.schema}}.changes c where c.lane_id = lane)
		returning l.generation into at_generation;
	end if;
	if at_generation is null then
		perform {{.schema}}.not_taken(array[lane], '{}');
	end if;
	insert into {{.schema}}.runs (lane_id, last_position, first_position, at, generation, process_id, segment, kind)
	values (lane, last, at_cursor + 1, clock_timestamp(), at_generation, process, in_segment, 'r');
	ignored := set_config('lock_timeout', lock_ms::text, true);
end $$;

-- take_group is take for several lanes, all or none. They are looked at before any
-- of them is written to.
create function {{.schema}}.take_group(
	process integer, lane_ids bigint[], cursors bigint[], versions integer[], lasts bigint[], segments integer[],
	statement_ms integer, lock_ms integer, idle_ms integer)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	ignored text := {{.schema}}.begin_taking(process, statement_ms, idle_ms, true);
	taken bigint[];
begin
	taken := array(
		select k.lane_id
		from unnest(lane_ids, cursors, versions) w(lane_id, cursor, version)
		cross join lateral (
			select l.lane_id from {{.schema}}.lanes l
			where l.lane_id = w.lane_id and l.cursor = w.cursor and l.version = w.version and l.state = 'ready'
				and (l.xmax = '0' or {{.schema}}.fate(l.xmax) <> 'in progress')
			limit 1
		) k
		where pg_try_advisory_xact_lock({{.lane_gate}}, (w.lane_id % 2147483647)::integer));
	if cardinality(taken) = cardinality(lane_ids) then
		with moved as (
			update {{.schema}}.lanes l
			set cursor = lasts[array_position(lane_ids, l.lane_id)],
				segment = segments[array_position(lane_ids, l.lane_id)],
				attempts = 0, next_attempt_at = null,
				error_message = null, error_fingerprint = null, error_at = null
			where l.lane_id = any(lane_ids)
				and l.cursor = cursors[array_position(lane_ids, l.lane_id)]
				and l.version = versions[array_position(lane_ids, l.lane_id)]
				and l.state = 'ready'
				and (l.xmax = '0' or {{.schema}}.fate(l.xmax) <> 'in progress')
				and not exists (select from {{.schema}}.changes c where c.lane_id = l.lane_id)
			returning l.lane_id, l.generation, l.cursor as last, l.segment
		), ledger as (
			insert into {{.schema}}.runs as r (lane_id, last_position, first_position, at, generation, process_id, segment, kind)
			select m.lane_id, m.last, cursors[array_position(lane_ids, m.lane_id)] + 1, clock_timestamp(), m.generation, process, m.segment, 'r' from moved m
			returning r.lane_id
		)
		select coalesce(array_agg(g.lane_id), '{}') into taken from ledger g;
	end if;
	if cardinality(taken) < cardinality(lane_ids) then
		perform {{.schema}}.not_taken(lane_ids, taken);
	end if;
	ignored := set_config('lock_timeout', lock_ms::text, true);
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
-- for its session are released. Without flush, the commit does not wait for the
-- disk: another transaction of the same session, which does, follows at once.
create function {{.schema}}.advance(
	process integer, lane_ids bigint[], firsts bigint[], lasts bigint[], segments integer[], unpark bigint[],
	flush boolean)
returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
	advanced integer;
begin
	perform {{.schema}}.in_turn(), pg_advisory_unlock_all();
	if not flush then
		perform set_config('synchronous_commit', 'off', true);
	end if;
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
