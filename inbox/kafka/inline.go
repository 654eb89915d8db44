package kafka

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// Inline is a sarama.ConsumerGroupHandler for a team that runs its own consumer
// and wants no lanes: each message takes effect once, however often it is
// delivered, in the order of its partition. It needs the table claims, and no
// inboxd process.
//
//	handler, err := kafka.NewInline(pool, kafka.InlineConfig[pgx.Tx]{
//		Consumer: "billing", ID: kafka.HeaderID("id"), Handle: charge,
//	})
//	…
//	for ctx.Err() == nil {
//		err := group.Consume(ctx, []string{"orders"}, handler)
//		…
//	}
//
// For each message it begins a transaction, claims the message's event (see
// inbox.Store.Claim), calls the handler in that transaction, commits, and marks
// the offset, in this order. A message that is delivered again is marked without
// running. A process that dies after the commit and before the mark does no harm.
//
// Partitions are handled in parallel, each by one goroutine, and messages wait in
// a queue of their own, so that a slow handler holds up neither heartbeats nor
// other partitions. A message whose handler fails is tried again with backoff, and
// its partition waits behind it, for as long as the session lasts; the next
// session begins with it. To pass over it, see InlineConfig.Poison.
//
// The group's configuration should have Offsets.AutoCommit enabled, which is
// sarama's default, since it is what commits the marks, and Offsets.Initial set to
// sarama.OffsetOldest. A handler may be used for one session after another, and
// in several groups.
type Inline struct {
	settings inlineSettings
	// attempt handles a message in a transaction of its own.
	attempt func(context.Context, *sarama.ConsumerMessage) error
	// giveUp has the poison function pass over a message; nil if there is none.
	giveUp func(context.Context, *sarama.ConsumerMessage, error) error
}

// Setup implements sarama.ConsumerGroupHandler.
func (i *Inline) Setup(sarama.ConsumerGroupSession) error { return nil }

// Cleanup implements sarama.ConsumerGroupHandler.
func (i *Inline) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// NewInline makes an Inline whose handler writes through pgx. The pool must allow
// a connection for each partition that is handled at a time; those that find none
// wait.
func NewInline(pool interface {
	Begin(context.Context) (pgx.Tx, error)
}, cfg InlineConfig[pgx.Tx]) (*Inline, error) {
	return newInline(!isNil(pool), cfg, inlineDriver[pgx.Tx]{
		begin: func(ctx context.Context) (pgx.Tx, error) { return pool.Begin(ctx) },
		claim: func(ctx context.Context, s *inbox.Store, tx pgx.Tx, consumer, id string) (bool, error) {
			return s.Claim(ctx, tx, consumer, id)
		},
		commit:   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		rollback: func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	})
}

// NewInlineSQL is NewInline for database/sql, with any driver for PostgreSQL.
func NewInlineSQL(db *sql.DB, cfg InlineConfig[*sql.Tx]) (*Inline, error) {
	return newInline(db != nil, cfg, inlineDriver[*sql.Tx]{
		begin: func(ctx context.Context) (*sql.Tx, error) { return db.BeginTx(ctx, nil) },
		claim: func(ctx context.Context, s *inbox.Store, tx *sql.Tx, consumer, id string) (bool, error) {
			return s.ClaimSQL(ctx, tx, consumer, id)
		},
		commit:   func(_ context.Context, tx *sql.Tx) error { return tx.Commit() },
		rollback: func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
	})
}

// newInline makes an Inline of a driver and a configuration; ready says whether
// there is a database.
func newInline[T any](ready bool, cfg InlineConfig[T], driver inlineDriver[T]) (*Inline, error) {
	cfg = cfg.withDefaults()
	store := inbox.NewStore(nil, cfg.Schema)
	if err := errors.Join(cfg.validate(ready), store.Err()); err != nil {
		return nil, err
	}
	t := inlineTurn[T]{cfg, driver, store}
	i := &Inline{settings: cfg.settings(), attempt: t.attempt}
	if cfg.Poison != nil {
		i.giveUp = t.giveUp
	}
	return i, nil
}

// ConsumeClaim implements sarama.ConsumerGroupHandler. It carries messages into a
// queue, from which one goroutine takes them, and returns when the session or the
// partition ends.
//
// The client feeds all partitions of a broker from one loop. One that is read
// slowly but steadily holds that loop up; one that is not read at all is left
// aside after a moment. So when the queue is full nothing is read until half of it
// is worked off.
func (i *Inline) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	c := newInlineClaim(i, session)
	go c.work()
	c.drain(claim.Messages())
	close(c.queue)
	<-c.ended
	return nil
}

// HeaderID finds a message's id in a header: the last of the name that has a
// value.
func HeaderID(name string) func(*sarama.ConsumerMessage) (string, error) {
	return func(m *sarama.ConsumerMessage) (string, error) {
		for n := len(m.Headers) - 1; n >= 0; n-- {
			if h := m.Headers[n]; h != nil && string(h.Key) == name && len(h.Value) > 0 {
				return string(h.Value), nil
			}
		}
		return "", fmt.Errorf("the message has no header %q", name)
	}
}

// OffsetID makes an id of where the message stands, for topics whose producers
// give none. It tells deliveries of one record apart from others, but not two
// records that a producer wrote for the same thing; and in a topic that is deleted
// and made again, the ids come again.
func OffsetID(m *sarama.ConsumerMessage) (string, error) {
	return fmt.Sprintf("%s-%d-%d", m.Topic, m.Partition, m.Offset), nil
}
