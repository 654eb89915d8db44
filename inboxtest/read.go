package inboxtest

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/admin"
)

// processedSQL lists events in the order in which their transactions committed.
const processedSQL = `
select e.event_id from {schema}.events e
where e.processed_at is not null and (e.skipped_at is not null) = $1
	and ($2::text[] is null or e.aggregate_id = any($2))
order by e.processed_at, e.lane_id, e.position`

// Processed lists the ids of the events whose handler succeeded, in the order of
// their commits: those of the aggregates, or all without one.
func (k *Kit) Processed(aggregates ...string) []string {
	k.t.Helper()
	return k.names(processedSQL, false, aggregates)
}

// Skipped lists the ids of the events that were passed over, by their handler or
// by an operator: those of the aggregates, or all without one.
func (k *Kit) Skipped(aggregates ...string) []string {
	k.t.Helper()
	return k.names(processedSQL, true, aggregates)
}

// waitingSQL lists events that are not done, in the order of their lanes.
const waitingSQL = `
select e.event_id from {schema}.events e
where e.processed_at is null and ($1::text[] is null or e.aggregate_id = any($1))
order by e.lane_id, e.position`

// Waiting lists the ids of the events that are neither processed nor skipped:
// those of the aggregates, or all without one.
func (k *Kit) Waiting(aggregates ...string) []string {
	k.t.Helper()
	return k.names(waitingSQL, aggregates)
}

func (k *Kit) names(sql string, args ...any) []string {
	k.t.Helper()
	return rows(k, pgx.RowTo[string], k.in(sql), args...)
}

// rows reads all rows of a query.
func rows[V any](k *Kit, scan pgx.RowToFunc[V], sql string, args ...any) []V {
	k.t.Helper()
	ctx, cancel := k.context()
	defer cancel()
	found, err := k.side.Query(ctx, sql, args...)
	if err == nil {
		var list []V
		if list, err = pgx.CollectRows(found, scan); err == nil {
			return list
		}
	}
	k.t.Fatalf("%v, in: %s", err, sql)
	return nil
}

// Stuck lists the lanes that wait for a person, with their head and its error,
// those that have waited longest first.
func (k *Kit) Stuck() []admin.Lane {
	k.t.Helper()
	ctx, cancel := k.context()
	defer cancel()
	var stuck []admin.Lane
	for lane, err := range k.Admin().Lanes(ctx, admin.Filter{State: admin.Stuck}) {
		if err != nil {
			k.t.Fatalf("list stuck lanes: %v", err)
		}
		stuck = append(stuck, lane)
	}
	return stuck
}

// Lane is the lane of one aggregate: its state, what waits in it, its history. An
// aggregate that has no event fails the test.
func (k *Kit) Lane(aggregate string) *admin.LaneDetail {
	k.t.Helper()
	ctx, cancel := k.context()
	defer cancel()
	lane, err := k.Admin().Lane(ctx, aggregate)
	if err != nil {
		k.t.Fatalf("%v", err)
	}
	return lane
}

// Wait is how long the aggregate's lane still has to wait in its backoff; 0 if it
// is in none. After RunDue it is exact: what the failure said, less what Advance
// has let pass.
func (k *Kit) Wait(aggregate string) time.Duration {
	k.t.Helper()
	lane := k.Lane(aggregate)
	if lane.NextAttemptAt == nil {
		return 0
	}
	if wait, ok := k.held.wait(aggregate); ok {
		return wait
	}
	return max(lane.NextAttemptAt.Sub(lane.AsOf), 0)
}
