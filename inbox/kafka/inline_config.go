package kafka

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/inboxd/inboxd/inbox"
)

// InlineConfig configures an Inline. T is the transaction: pgx.Tx or *sql.Tx.
// Consumer, ID and Handle are needed; the zero value of every other field means
// its default.
type InlineConfig[T any] struct {
	// Consumer names whose claims these are: each consumer handles an event once.
	// The name of the group is a good one. It must stay the same for as long as
	// the effects do.
	Consumer string
	// Schema is the one that inboxd's tables are in. Default: inboxd.
	Schema string
	// ID finds the id of a message's event, which has to be the same whenever the
	// message is delivered or sent again: HeaderID, OffsetID, or one's own. An
	// error is a failed attempt.
	ID func(*sarama.ConsumerMessage) (string, error)
	// Handle is the handler. It writes through tx, and neither commits nor rolls
	// back. Its context ends Grace after the session, and it must return soon
	// after that. An error, or a panic, rolls back, and the message is tried
	// again. It is called from several goroutines, for different partitions.
	Handle func(ctx context.Context, tx T, m *sarama.ConsumerMessage) error

	// Poison is asked what to do with a message whose handler failed Attempts
	// times in this session, in a transaction of its own: if it returns nil, say
	// after it has written the message to a table of its own, that is committed
	// and the message is passed over for good. If it returns an error the message
	// is tried on. Default: nobody is asked, and the message is tried on.
	Poison func(ctx context.Context, tx T, m *sarama.ConsumerMessage, cause error) error
	// Attempts is how often a handler must have failed before Poison is asked.
	// An outage of the database and a conflict of transactions are no failures of
	// the handler. Default: 10.
	Attempts int
	// RetryInitial is the wait after a first failure; it doubles with each.
	// Default: 200 ms.
	RetryInitial time.Duration
	// RetryMax is the longest wait. Default: 1 min.
	RetryMax time.Duration

	// Grace is how long a handler that is running may go on when the session
	// ends, because of a rebalance or a stop. The group waits for it, so it must
	// be shorter than the client's Group.Rebalance.Timeout. Default: 5 s.
	Grace time.Duration
	// BufferBytes bounds, for each partition, the messages that wait for the
	// handler. The client holds as much as one fetch on top. Default: 1 MiB.
	BufferBytes int

	// Log hears of messages that fail, at once and then once a minute. It never
	// sees keys, values or headers. Default: slog.Default().
	Log *slog.Logger
}

// inlineSettings are what of an InlineConfig does not depend on its T.
type inlineSettings struct {
	consumer               string
	attempts               int
	retryInitial, retryMax time.Duration
	grace                  time.Duration
	bufferBytes            int
	log                    *slog.Logger
}

func (c InlineConfig[T]) settings() inlineSettings {
	return inlineSettings{c.Consumer, c.Attempts, c.RetryInitial, c.RetryMax, c.Grace, c.BufferBytes, c.Log}
}

func (c InlineConfig[T]) withDefaults() InlineConfig[T] {
	if c.Poison != nil {
		orElse(&c.Attempts, 10)
	}
	orElse(&c.Schema, inbox.DefaultSchema)
	orElse(&c.RetryInitial, 200*time.Millisecond)
	orElse(&c.RetryMax, max(time.Minute, c.RetryInitial))
	orElse(&c.Grace, 5*time.Second)
	orElse(&c.BufferBytes, 1<<20)
	orElse(&c.Log, slog.Default())
	return c
}

// validate says in whole sentences what is wrong with a configuration that has
// its defaults.
func (c InlineConfig[T]) validate(hasDatabase bool) error {
	var errs []error
	need := func(ok bool, sentence string) {
		if !ok {
			errs = append(errs, errors.New(sentence))
		}
	}
	need(hasDatabase, "The inline consumer needs a pool of connections, not nil.")
	need(c.Consumer != "" && len(c.Consumer) <= inbox.MaxName && !strings.ContainsRune(c.Consumer, 0) && strings.ToValidUTF8(c.Consumer, "") == c.Consumer,
		"The consumer needs a name of at most 1024 bytes of text.")
	need(c.ID != nil, "The inline consumer needs a function that finds a message's id, such as HeaderID.")
	need(c.Handle != nil, "The inline consumer needs a handler.")
	need(c.Poison != nil || c.Attempts == 0, "Attempts mean nothing without a Poison function to ask after them.")
	need(c.Attempts >= 0, "The attempts must not be negative.")
	need(c.RetryInitial > 0 && c.RetryMax >= c.RetryInitial, "The waits must be longer than 0, and the longest no shorter than the first.")
	need(c.Grace > 0 && c.BufferBytes > 0, "The grace and the buffer must be larger than 0.")
	return errors.Join(errs...)
}

// isNil also knows a pointer that is nil inside an interface.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return !r.IsValid() || r.Kind() == reflect.Pointer && r.IsNil()
}
