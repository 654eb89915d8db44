-- The tables of inboxd. {{.schema}} is the configured schema, quoted.
--
-- Two rows stand for one aggregate, so that ingest and handlers never wait for
-- each other: `aggregates` is ingest's side (it gives positions and is locked
-- for a moment by whoever stores), `lanes` is the workers' side (locked for as
-- long as a handler runs). Nothing that holds the lock of an `aggregates` row
-- waits for the lock of a `lanes` row.

create table {{.schema}}.segments (
	segment   integer primary key,
	opened_at timestamptz not null default clock_timestamp()
);
comment on table {{.schema}}.segments is
	'Generations of stored events: inbox has one partition a segment, so that old events are dropped whole. The newest segment takes new events.';

create table {{.schema}}.aggregates (
	lane_id       bigint generated always as identity primary key,
	aggregate_id  text collate "C" not null,
	last_position bigint not null default 0,
	pending       boolean not null default true,
	parked        boolean not null default false,
	constraint aggregates_name unique (aggregate_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
comment on table {{.schema}}.aggregates is
	'Ingest''s side of a lane. pending: it may hold unprocessed events. parked: it is stuck, paused or backing off, and the sweep passes it by.';

-- The sweep reads this index in pages, by lane_id. It holds only lanes that can
-- run: lanes that are done or that wait for a person or a clock are not in it.
-- On an expression, so that a sweep cannot be planned with the primary key, by
-- which it would read all that is held.
create index aggregates_pending on {{.schema}}.aggregates ((lane_id + 0)) where pending and not parked;

create table {{.schema}}.lanes (
	lane_id           bigint primary key,
	cursor            bigint not null default 0,
	replayed_to       bigint not null default 0,
	careful_to        bigint not null default 0,
	segment           integer not null,
	generation        integer not null default 0,
	version           integer not null default 0,
	attempts          integer not null default 0,
	crashes           integer not null default 0,
	next_attempt_at   timestamptz,
	since             timestamptz not null default clock_timestamp(),
	state             text not null default 'ready'
		check (state in ('ready', 'backoff', 'waiting', 'stuck', 'paused')),
	aggregate_id      text collate "C" not null,
	error_message     text,
	error_fingerprint text,
	error_at          timestamptz,
	paused_by         text,
	paused_reason     text,
	paused_from       text,
	paused_type       text collate "C",
	edited_to         bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
comment on table {{.schema}}.lanes is
	'The workers'' side of a lane. Every event up to cursor was processed or skipped; none after it is in a segment before segment. generation counts replays, events up to replayed_to run for another time, version counts changes from outside a turn.';
comment on column {{.schema}}.lanes.state is
	'As stored. A ready lane without unprocessed events is idle; one whose handler runs is running.';
comment on column {{.schema}}.lanes.attempts is 'Failed attempts of the head since it became the head or was retried.';
comment on column {{.schema}}.lanes.careful_to is
	'Events up to here may have been in flight when a process died: each runs alone, its attempt counted beforehand.';
comment on column {{.schema}}.lanes.paused_from is 'The state that a paused lane goes back to when it is resumed.';
comment on column {{.schema}}.lanes.paused_type is 'The event type whose breaker paused the lane; null for a person''s pause.';
comment on column {{.schema}}.lanes.edited_to is 'Payloads of events up to here may have been edited.';
comment on column {{.schema}}.lanes.crashes is 'Attempts of the head that began, counted beforehand, and never ended.';

-- The due sweep reads the lanes whose backoff ended, oldest first.
create index lanes_backoff on {{.schema}}.lanes (next_attempt_at) where state = 'backoff';
-- Operators list what is held, by state, by time and by cause.
create index lanes_held on {{.schema}}.lanes (state, since, lane_id) where state <> 'ready';
create index lanes_error on {{.schema}}.lanes (error_fingerprint, lane_id) where error_fingerprint is not null;
-- When a breaker closes, the lanes that it paused are found by this one.
create index lanes_paused_type on {{.schema}}.lanes (paused_type, lane_id) where paused_type is not null;

create table {{.schema}}.breakers (
	event_type    text collate "C" primary key,
	opened_at     timestamptz not null default clock_timestamp(),
	reason        text not null,
	fingerprint   text not null,
	next_probe_at timestamptz not null,
	probes        integer not null default 0,
	probing       bigint
);
comment on table {{.schema}}.breakers is
	'Event types that are paused, in every process, because something their handlers depend on is down. probing is the lane that runs to find out whether it is back.';

create table {{.schema}}.changes (
	change_id   bigint generated always as identity primary key,
	lane_id     bigint not null,
	action      text not null check (action in ('retry', 'skip', 'replay', 'pause', 'resume')),
	event_id    text collate "C",
	to_position bigint,
	actor       text not null,
	reason      text,
	at          timestamptz not null default clock_timestamp()
);
comment on table {{.schema}}.changes is
	'Changes that operators asked for while a handler ran. They are made when it is done.';
-- claim() looks here in each turn; the table is empty nearly always.
create index changes_lane on {{.schema}}.changes (lane_id, change_id);

create table {{.schema}}.edits (
	lane_id  bigint not null,
	position bigint not null,
	payload  bytea not null,
	actor    text not null,
	reason   text not null,
	at       timestamptz not null default clock_timestamp(),
	primary key (lane_id, position)
);
comment on table {{.schema}}.edits is
	'Payloads that operators put in the place of the original ones, which stay as they are in inbox.';

create table {{.schema}}.inbox (
	lane_id          bigint not null,
	position         bigint not null,
	received_at      timestamptz not null,
	occurred_at      timestamptz not null,
	sequence         bigint,
	source_offset    bigint,
	source_partition integer,
	segment          integer not null,
	event_id         text collate "C" not null,
	aggregate_id     text collate "C" not null,
	event_type       text collate "C" not null,
	source_topic     text collate "C",
	headers          jsonb,
	payload          bytea not null,
	-- The head of a lane and its followers are read by this one.
	primary key (lane_id, position, segment),
	-- Within a segment this is the guard against duplicates; store() looks into
	-- the older segments, and opening a segment waits for every store().
	constraint inbox_event_id unique (event_id, segment)
) partition by list (segment);
comment on table {{.schema}}.inbox is
	'One row an event, never changed. Positions are dense within a lane. headers is a list of [name, value] pairs; bytes that are no text stand as {"base64": …}.';

create table {{.schema}}.runs (
	lane_id        bigint not null,
	last_position  bigint not null,
	first_position bigint not null,
	at             timestamptz not null,
	generation     integer not null,
	process_id     integer not null,
	segment        integer not null,
	kind           "char" not null check (kind in ('r', 's'))
	-- Each partition has a unique index on (lane_id, generation, last_position),
	-- made by open_segment(). A primary key would carry the segment as well: eight
	-- bytes more in each entry, of which every turn writes one.
) partition by list (segment);
comment on table {{.schema}}.runs is
	'The ledger: one row a committed lane transaction, written in that transaction, for events first_position to last_position. segment is that of the last event, so that the ledger goes with its events. kind: r, handlers ran; s, an event was skipped.';

create table {{.schema}}.failures (
	failure_id  bigint generated always as identity primary key,
	lane_id     bigint not null,
	position    bigint not null,
	attempt     integer not null,
	at          timestamptz not null default clock_timestamp(),
	crash       boolean not null default false,
	process_id  integer not null,
	fingerprint text not null,
	message     text not null,
	detail      jsonb
);
comment on table {{.schema}}.failures is
	'One row a counted attempt that failed. crash: the attempt was counted before it ran and has not ended (yet).';
create index failures_event on {{.schema}}.failures (lane_id, position);

create table {{.schema}}.quarantine (
	id               bigint generated always as identity primary key,
	received_at      timestamptz not null default clock_timestamp(),
	reason           text not null,
	detail           text not null,
	source_topic     text,
	source_partition integer,
	source_offset    bigint,
	record_time      timestamptz,
	key              bytea,
	value            bytea,
	headers          jsonb,
	-- A record is here once, however often it is delivered.
	constraint quarantine_source unique (source_topic, source_partition, source_offset)
);
comment on table {{.schema}}.quarantine is 'Records that could not become events, bytes intact.';

create table {{.schema}}.audit (
	id           bigint generated always as identity primary key,
	at           timestamptz not null default clock_timestamp(),
	actor        text not null,
	action       text not null,
	aggregate_id text,
	event_id     text,
	reason       text,
	detail       jsonb
);
comment on table {{.schema}}.audit is 'What operators changed, written in the transaction of the change.';
create index audit_aggregate on {{.schema}}.audit (aggregate_id, id);

create table {{.schema}}.processes (
	process_id integer generated always as identity primary key,
	name       text not null,
	started_at timestamptz not null default clock_timestamp(),
	seen_at    timestamptz not null default clock_timestamp(),
	running    bigint[] not null default '{}'
);
comment on table {{.schema}}.processes is
	'Processes that run lanes. running: the lanes whose handler had been running for a while when the process was last seen.';

create table {{.schema}}.staged (
	xid          xid8 not null default pg_current_xact_id(),
	ord          bigint generated always as identity,
	event_id     text collate "C" not null,
	aggregate_id text collate "C" not null,
	event_type   text collate "C" not null,
	sequence     bigint,
	payload      bytea not null,
	headers      jsonb,
	occurred_at  timestamptz,
	-- Of a transaction that adds event by event, each looks up its own id only.
	primary key (xid, event_id)
);
comment on table {{.schema}}.staged is
	'Events added inside somebody''s transaction: they get their positions just before it commits, so that a long transaction holds up no ingest.';

create view {{.schema}}.events as
select i.event_id, i.aggregate_id, i.event_type, i.position, i.received_at,
	r.at as processed_at,
	case when r.kind = 's' then r.at end as skipped_at,
	f.failed + (case when r.kind = 'r' then 1 else 0 end) as attempts,
	i.occurred_at, i.sequence, i.source_topic, i.source_partition, i.source_offset,
	i.headers, i.payload, i.lane_id, i.segment,
	e.at as edited_at, e.payload as edited_payload
from {{.schema}}.inbox i
join {{.schema}}.lanes l on l.lane_id = i.lane_id
left join lateral (
	-- Of the runs of one generation, the first that ends at or after the
	-- event's position holds it, if any does. The newest generation counts.
	select c.at, c.kind
	-- (As an array, of which the planner expects ten elements, not a thousand.)
	from unnest(array(select generate_series(l.generation, 0, -1))) g(generation)
	cross join lateral (
		select at, kind, first_position
		from {{.schema}}.runs
		where lane_id = i.lane_id and generation = g.generation
			and last_position >= i.position and segment >= i.segment
		order by last_position
		limit 1
	) c
	where i.position <= l.cursor and c.first_position <= i.position
	order by g.generation desc
	limit 1
) r on true
cross join lateral (
	select count(*)::integer as failed
	from {{.schema}}.failures
	where lane_id = i.lane_id and position = i.position
) f
left join {{.schema}}.edits e on e.lane_id = i.lane_id and e.position = i.position;
comment on view {{.schema}}.events is
	'Every event; processed_at is null exactly while it is unprocessed. A skipped event has both processed_at and skipped_at.';

create table {{.schema}}.claims (
	claimed_at timestamptz not null default clock_timestamp(),
	consumer   text collate "C" not null,
	event_id   text collate "C" not null,
	primary key (consumer, event_id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
comment on table {{.schema}}.claims is
	'Events that consumers outside of inboxd have taken effect of, one row a consumer and event, written in the transaction of the effect.';
-- Retention deletes from the old end of this one. Rows come in the order of
-- their times, so that an insert goes to its last page, which is in memory: some
-- 20 bytes a row, where the primary key has 60. A brin index would be smaller,
-- but new rows fill the room that old ones left, and its ranges would grow until
-- they mean nothing; partitions by time cannot hold the primary key.
create index claims_age on {{.schema}}.claims (claimed_at);

create table {{.schema}}.sources (
	consumer_group text collate "C" not null,
	topic          text collate "C" not null,
	partition      integer not null,
	state          text not null,
	topic_id       text,
	position       bigint,
	committed      bigint,
	end_offset     bigint,
	stored         bigint not null default 0,
	duplicates     bigint not null default 0,
	conflicts      bigint not null default 0,
	quarantined    bigint not null default 0,
	ignored        bigint not null default 0,
	member         text,
	process        text,
	seen_at        timestamptz not null default clock_timestamp(),
	error_message  text,
	error_at       timestamptz,
	primary key (consumer_group, topic, partition)
) with (fillfactor = 50);
comment on table {{.schema}}.sources is
	'How far ingest is, one row a partition, written every few seconds by the process that reads it. What counts for ingest are the offsets that Kafka keeps; this is for people, and for a group whose offsets Kafka has forgotten: position is that of the topic with topic_id. The counts are of all processes since the row was made.';
