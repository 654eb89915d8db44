package ordering

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// The steps of a lane are functions of the schema; their plans, locks and
// indexes are described in migrations/003_lanes.sql.
type statements struct {
	load, claim, advance, fail, skip       string
	take, takeGroup                        string
	beginCareful, endCareful, giveUp       string
	payload, settle, sweep, stalled, due   string
	trip, hold, closeBreaker, tend         string
	makeChanges, youngBreakers             string
	register, unregister, heartbeat, evict string
	schemaVersion                          string
}

const (
	loadSQL = `select lane_id, aggregate_id, cursor, version, generation, runnable, attempts, crashes, traced, parked, replayed_to, careful_to,
	position, segment, event_id, event_type, sequence, occurred_at, received_at,
	source_topic, source_partition, source_offset, headers, payload
from {schema}.load($1, $2, $3, $4)`

	claimSQL   = `select {schema}.claim($1, $2, $3, $4, $5, $6, $7)`
	advanceSQL = `select {schema}.advance($1, $2, $3, $4, $5, $6, $7)`
	takeSQL    = `select {schema}.take($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`
	groupSQL   = `select {schema}.take_group($1, $2, $3, $4, $5, $6, $7, $8, $9)`
	failSQL    = `select {schema}.fail($1, $2, $3, $4, $5, $6, $7, $8::jsonb)`
	skipSQL    = `select {schema}.skip($1, $2, $3, $4, $5)`

	beginCarefulSQL = `select used, careful_to from {schema}.begin_careful($1, $2, $3, $4, $5)`
	endCarefulSQL   = `select {schema}.end_careful($1, $2, $3)`
	giveUpSQL       = `select {schema}.give_up($1, $2, $3, $4, $5)`

	payloadSQL = `select {schema}.payload($1, $2, $3)`

	tripSQL          = `select {schema}.trip($1, $2, $3, $4, $5, $6)`
	holdSQL          = `select {schema}.hold($1, $2, $3, $4)`
	closeBreakerSQL  = `select {schema}.close_breaker($1, $2, $3)`
	tendSQL          = `select open, probes, freed from {schema}.tend($1, $2, $3, $4)`
	youngBreakersSQL = `select exists (select from {schema}.breakers where probes < $1 and event_type = any($2))`
	makeChangesSQL   = `select {schema}.make_changes($1)`

	settleSQL  = `select runnable, held, idle from {schema}.settle($1)`
	sweepSQL   = `select * from {schema}.sweep($1, $2, $3, $4)`
	stalledSQL = `select lane_id, cursor from {schema}.stalled($1, $2, $3, $4)`
	dueSQL     = `select lanes, next from {schema}.due($1, $2, $3)`

	schemaVersionSQL = `select version from {schema}.schema_version`

	registerSQL = `with born as (insert into {schema}.processes (name) values ($1) returning process_id)
select process_id, pg_notify($2, 'members') from born`
	unregisterSQL = `with gone as (delete from {schema}.processes where process_id = $1 returning 1)
select pg_notify($2, 'members') from gone`
	heartbeatSQL = `select members, lost from {schema}.heartbeat($1, $2, $3, $4, $5)`
	evictSQL     = `select {schema}.evict($1, $2)`
)

// inSchema puts the schema into a statement.
func inSchema(sql, schema string) string {
	return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{schema}.Sanitize())
}

func statementsFor(schema string) statements {
	in := func(sql string) string { return inSchema(sql, schema) }
	return statements{
		load: in(loadSQL), claim: in(claimSQL), advance: in(advanceSQL), take: in(takeSQL), takeGroup: in(groupSQL), fail: in(failSQL), skip: in(skipSQL),
		beginCareful: in(beginCarefulSQL), endCareful: in(endCarefulSQL), giveUp: in(giveUpSQL),
		trip: in(tripSQL), hold: in(holdSQL), closeBreaker: in(closeBreakerSQL), tend: in(tendSQL), makeChanges: in(makeChangesSQL), youngBreakers: in(youngBreakersSQL),
		payload: in(payloadSQL), settle: in(settleSQL), sweep: in(sweepSQL), stalled: in(stalledSQL), due: in(dueSQL),
		schemaVersion: in(schemaVersionSQL),
		register:      in(registerSQL), unregister: in(unregisterSQL), heartbeat: in(heartbeatSQL), evict: in(evictSQL),
	}
}
