package service

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox/kafka"
)

// rememberedSQL reads how far a group was, as its processes have written it. By
// the primary key; what is written there was stored before.
const rememberedSQL = `select topic, partition, topic_id, position from {schema}.sources
where consumer_group = $1 and topic_id is not null and position is not null`

// remembered is what the database knows of a group whose offsets Kafka has
// forgotten.
func remembered(pool *pgxpool.Pool, schema, group string) func(context.Context) ([]kafka.Remembered, error) {
	sql := strings.ReplaceAll(rememberedSQL, "{schema}", pgx.Identifier{schema}.Sanitize())
	return func(ctx context.Context) ([]kafka.Remembered, error) {
		rows, err := pool.Query(ctx, sql, group)
		if err != nil {
			return nil, fmt.Errorf("read how far ingest was: %w", err)
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r kafka.Remembered, err error) {
			return r, row.Scan(&r.Topic, &r.Partition, &r.TopicID, &r.Position)
		})
		if err != nil {
			return nil, fmt.Errorf("read how far ingest was: %w", err)
		}
		return all, nil
	}
}
