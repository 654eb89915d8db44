package cmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/internal/config"
)

// What is held comes first; each part by its index: lanes_held, and the name.
// The names after it that do not begin so are left out by the caller.
const completeAggregatesSQL = `
select * from (
	(select aggregate_id, state from {schema}.lanes where state = 'stuck' and starts_with(aggregate_id, $1) order by since, lane_id limit $2)
	union all
	(select aggregate_id, state from {schema}.lanes where state = 'paused' and starts_with(aggregate_id, $1) order by since, lane_id limit $2)
	union all
	(select aggregate_id, state from {schema}.lanes where state = 'waiting' and starts_with(aggregate_id, $1) order by since, lane_id limit $2)
	union all
	(select aggregate_id, state from {schema}.lanes where state = 'backoff' and starts_with(aggregate_id, $1) order by since, lane_id limit $2)
	union all
	(select aggregate_id, '' from {schema}.aggregates where aggregate_id >= $1 order by aggregate_id limit $2)
) x`

func findAggregates(ctx context.Context, db *database, _ []string, begun string) ([]string, error) {
	return db.words(ctx, completeAggregatesSQL, begun, maxWords)
}

// completeHeadSQL is the head of one lane, by the keys.
const completeHeadSQL = `
select i.event_id, i.event_type
from {schema}.lanes l
join {schema}.inbox i on i.lane_id = l.lane_id and i.segment >= l.segment and i.position > l.cursor
where l.lane_id = (select lane_id from {schema}.aggregates where aggregate_id = $1)
order by i.position
limit 1`

func findHead(ctx context.Context, db *database, args []string, _ string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	return db.words(ctx, completeHeadSQL, args[0])
}

// completeProcessedSQL is the newest that a lane has processed, by the keys.
const completeProcessedSQL = `
select i.event_id, i.event_type
from {schema}.lanes l
join {schema}.inbox i on i.lane_id = l.lane_id and i.position <= l.cursor
where l.lane_id = (select lane_id from {schema}.aggregates where aggregate_id = $1) and starts_with(i.event_id, $2)
order by i.position desc
limit $3`

func findProcessed(ctx context.Context, db *database, args []string, begun string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	return db.words(ctx, completeProcessedSQL, args[0], begun, maxWords)
}

// completeEventsSQL has the heads of lanes that are stuck first, then events by
// their ids.
const completeEventsSQL = `
select * from (
	(select h.event_id, 'stuck: ' || h.event_type
	from (select lane_id, cursor, segment from {schema}.lanes where state = 'stuck' order by since, lane_id limit 200) l
	cross join lateral (
		select i.event_id, i.event_type from {schema}.inbox i
		where i.lane_id = l.lane_id and i.segment >= l.segment and i.position > l.cursor
		order by i.position limit 1
	) h
	where starts_with(h.event_id, $1)
	limit $2)
	union all
	(select event_id, event_type from {schema}.inbox where event_id >= $1 order by event_id limit $2)
) x`

func findEvents(ctx context.Context, db *database, _ []string, begun string) ([]string, error) {
	return db.words(ctx, completeEventsSQL, begun, maxWords)
}

// findErrors finds the fingerprints of errors that hold lanes.
func findErrors(ctx context.Context, db *database, _ []string, _ string) ([]string, error) {
	groups, err := admin.New(db.pool, db.schema).Errors(ctx, admin.ErrorFilter{Limit: maxTableRows})
	words := make([]string, len(groups))
	for i, g := range groups {
		words[i] = g.Fingerprint + "\t" + errorLine(printable(g.Message))
	}
	return words, err
}

// knownTypes are the event types that have a handler.
func (a *app) knownTypes(c *config.Config) []string {
	return slices.Sorted(slices.Values(slices.AppendSeq(a.reg.Types(), maps.Keys(c.Handlers))))
}

// findTypes finds the event types that hold lanes.
func findTypes(ctx context.Context, db *database, _ []string, _ string) ([]string, error) {
	var types []string
	groups, err := admin.New(db.pool, db.schema).Errors(ctx, admin.ErrorFilter{Limit: maxTableRows})
	for _, g := range groups {
		types = append(types, g.EventTypes...)
	}
	return types, err
}

// completeTopicsSQL goes from one topic of the quarantine to the next, by the
// index of its unique constraint.
const completeTopicsSQL = `
with recursive t as (
	(select source_topic from {schema}.quarantine where source_topic is not null order by source_topic limit 1)
	union all
	select (select q.source_topic from {schema}.quarantine q where q.source_topic > t.source_topic order by q.source_topic limit 1)
	from t where t.source_topic is not null
)
select source_topic, '' from t where source_topic is not null limit $1`

// knownTopics are the topics that are configured by name.
func knownTopics(c *config.Config) []string {
	return slices.DeleteFunc(slices.Clone(c.Kafka.Topics), func(t string) bool { return strings.HasPrefix(t, "^") })
}

// findTopics finds the topics that quarantined records came from.
func findTopics(ctx context.Context, db *database, _ []string, _ string) ([]string, error) {
	return db.words(ctx, completeTopicsSQL, maxWords)
}

// completeReasonsSQL is why the newest records are in quarantine, by the primary
// key.
const completeReasonsSQL = `
select distinct reason, '' from (select reason from {schema}.quarantine order by id desc limit 1000) x order by reason limit $1`

// findReasons finds reasons that hold records in quarantine.
func findReasons(ctx context.Context, db *database, _ []string, _ string) ([]string, error) {
	return db.words(ctx, completeReasonsSQL, maxWords)
}

// words runs a query of words and their descriptions.
func (d *database) words(ctx context.Context, sql string, args ...any) ([]string, error) {
	rows, err := d.pool.Query(ctx, strings.ReplaceAll(sql, "{schema}", pgx.Identifier{d.schema}.Sanitize()), args...)
	if err != nil {
		return nil, err
	}
	var words []string
	var word, description string
	_, err = pgx.ForEachRow(rows, []any{&word, &description}, func() error {
		if description != "" {
			words = append(words, word+"\t"+printable(description))
			return nil
		}
		words = append(words, word)
		return nil
	})
	return words, err
}
