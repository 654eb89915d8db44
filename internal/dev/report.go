package dev

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/service"
)

// Report is what a sample did. All that it says of the database was read from it
// afterwards.
type Report struct {
	Seed       uint64
	Sent       Sent
	Again      int64 // records that were delivered a second time
	Counts     service.Counts
	Took       time.Duration
	Median     time.Duration // from stored to committed
	Aggregates int64
	Stored     int64 // events in the inbox
	Processed  int64
	Waiting    int64 // events that are not processed
	Failures   int64 // attempts that failed
	Recovered  []Recovered
	Stuck      []StuckLane
	Quarantine []Quarantined
	Violations Violations
}

// Recovered is an event that failed first and succeeded then.
type Recovered struct {
	EventID string
	Attempt int // that succeeded
}

// StuckLane is a lane that waits for a person.
type StuckLane struct {
	AggregateID, EventID, EventType string
	Attempts                        int
	Followers                       int64 // events behind its head
	Error                           string
}

// Quarantined is a record in quarantine.
type Quarantined struct {
	ID             int64
	Topic          string
	Partition      int32
	Offset         int64
	Reason, Detail string
}

// Violations of the order, counted from the effects that the handlers left.
type Violations struct {
	// Doubled events took effect more than once.
	Doubled int64
	// Disordered effects do not follow the one before them in their aggregate.
	Disordered int64
	// Lost events count as processed and have no effect, or the other way round.
	Lost int64
}

// Total is how many there are.
func (v Violations) Total() int64 { return v.Doubled + v.Disordered + v.Lost }

// The queries of the report read whole tables, which are those of a sample.
const (
	idleSQL = `select not exists (
		select from {schema}.aggregates a join {schema}.lanes l using (lane_id)
		where a.last_position > l.cursor and l.state not in ('stuck', 'paused', 'waiting'))`

	totalsSQL = `select count(distinct aggregate_id), count(*), count(processed_at), count(*) - count(processed_at),
		coalesce(percentile_cont(0.5) within group (order by extract(epoch from processed_at - received_at)), 0)::float8,
		(select count(*) from {schema}.failures)
		from {schema}.events`

	recoveredSQL = `select event_id, attempts from {schema}.events
		where processed_at is not null and skipped_at is null and attempts > 1
		order by attempts desc, event_id limit 5`

	stuckSQL = `select l.aggregate_id, i.event_id, i.event_type, l.attempts, a.last_position - i.position, l.error_message
		from {schema}.lanes l
		join {schema}.aggregates a using (lane_id)
		join {schema}.inbox i on i.lane_id = l.lane_id and i.position = l.cursor + 1
		where l.state = 'stuck' order by l.since, l.lane_id`

	quarantineSQL = `select id, coalesce(source_topic, ''), coalesce(source_partition, 0), coalesce(source_offset, 0), reason, detail
		from {schema}.quarantine order by id`

	// The version is the producer's own count within the aggregate; n is the
	// order in which the effects came about.
	violationsSQL = `select
		(select count(*) from (select from shop.effects group by event_id having count(*) > 1) d),
		(select count(*) from (
			select version, lag(version, 1, 0) over (partition by aggregate_id order by n) as before from shop.effects
		) o where version <> before + 1),
		(select count(*) from (select distinct event_id from shop.effects) f
			full join (select event_id from {schema}.events where processed_at is not null and skipped_at is null) p using (event_id)
			where f.event_id is null or p.event_id is null)`
)

func (s *sample) sql(text string) string {
	return strings.ReplaceAll(text, "{schema}", pgx.Identifier{s.o.Config.Database.Schema}.Sanitize())
}

// idle reports whether no lane can run any more.
func (s *sample) idle(ctx context.Context) (idle bool, err error) {
	if err = s.o.Pool.QueryRow(ctx, s.sql(idleSQL)).Scan(&idle); err != nil {
		err = fmt.Errorf("look at the lanes: %w", err)
	}
	return idle, err
}

func (s *sample) report(ctx context.Context) (*Report, error) {
	r := &Report{Seed: s.o.Seed, Sent: s.feed.Sent(), Again: s.again, Counts: s.before, Took: time.Since(s.began)}
	if err := s.read(ctx, r); err != nil {
		return nil, fmt.Errorf("read what the sample did: %w", err)
	}
	return r, nil
}

func (s *sample) read(ctx context.Context, r *Report) error {
	db := s.o.Pool
	var median float64
	err := db.QueryRow(ctx, s.sql(totalsSQL)).Scan(&r.Aggregates, &r.Stored, &r.Processed, &r.Waiting, &median, &r.Failures)
	if err != nil {
		return err
	}
	r.Median = time.Duration(median * float64(time.Second))
	v := &r.Violations
	if err := db.QueryRow(ctx, s.sql(violationsSQL)).Scan(&v.Doubled, &v.Disordered, &v.Lost); err != nil {
		return err
	}
	if r.Recovered, err = collect[Recovered](ctx, s, recoveredSQL); err != nil {
		return err
	}
	if r.Stuck, err = collect[StuckLane](ctx, s, stuckSQL); err != nil {
		return err
	}
	r.Quarantine, err = collect[Quarantined](ctx, s, quarantineSQL)
	return err
}

func collect[T any](ctx context.Context, s *sample, sql string) ([]T, error) {
	rows, err := s.o.Pool.Query(ctx, s.sql(sql))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[T])
}
