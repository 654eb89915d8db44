// Package inline is a consumer of one's own, with sarama, that needs no lanes: only
// that each message takes effect once.
//
// It shows what inboxd does for a service that keeps its consumer. kafka.NewInline
// makes the handler of a sarama consumer group: for each message it begins a
// transaction, claims the message's id in it, calls charge in the same transaction,
// commits, and marks the offset. A message that the broker delivers again, or that a
// producer sends again with the same id, finds its claim taken and does nothing. The
// order is that of the partition, and a message that fails holds up its partition,
// unless Poison puts it aside: that is the price of having no lanes. The table of
// claims is of inboxd's schema (inboxd migrate up); no inboxd process has to run.
package inline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox/kafka"
)

// Tables are the service's own.
const Tables = `
create table charges (account text primary key, cents bigint not null);
create table poison (topic text, part integer, off bigint, value bytea, error text, primary key (topic, part, off))`

// Charged is a message's value.
type Charged struct {
	Account string
	Cents   int64
}

// Consume handles the messages of the topics until the context ends.
func Consume(ctx context.Context, brokers []string, topics []string, pool *pgxpool.Pool) error {
	handler, err := kafka.NewInline(pool, kafka.InlineConfig[pgx.Tx]{
		Consumer: "billing",
		ID:       kafka.HeaderID("id"),
		Handle:   charge,
		Poison:   putAside,
		Attempts: 3,
	})
	if err != nil {
		return err
	}
	config := sarama.NewConfig()
	config.ClientID = "billing"
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup(brokers, "billing", config)
	if err != nil {
		return fmt.Errorf("join the group: %w", err)
	}
	for ctx.Err() == nil {
		// It returns when the group is shared anew, and has to be called again.
		if err := group.Consume(ctx, topics, handler); err != nil {
			return errors.Join(fmt.Errorf("consume: %w", err), group.Close())
		}
	}
	return group.Close()
}

func charge(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage) error {
	var c Charged
	if err := json.Unmarshal(m.Value, &c); err != nil {
		return fmt.Errorf("decode a charge: %w", err)
	}
	_, err := tx.Exec(ctx, `insert into charges values ($1, $2)
		on conflict (account) do update set cents = charges.cents + excluded.cents`, c.Account, c.Cents)
	return err
}

// putAside keeps a message that could not be handled, so that its partition goes on.
func putAside(ctx context.Context, tx pgx.Tx, m *sarama.ConsumerMessage, cause error) error {
	_, err := tx.Exec(ctx, `insert into poison values ($1, $2, $3, $4, $5) on conflict do nothing`,
		m.Topic, m.Partition, m.Offset, m.Value, cause.Error())
	return err
}
