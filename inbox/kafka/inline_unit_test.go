package kafka_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox/kafka"
)

type noPool struct{}

func (noPool) Begin(context.Context) (pgx.Tx, error) { return nil, errDown }

func goodInline() kafka.InlineConfig[pgx.Tx] {
	return kafka.InlineConfig[pgx.Tx]{
		Consumer: "c", ID: kafka.OffsetID,
		Handle: func(context.Context, pgx.Tx, *sarama.ConsumerMessage) error { return nil },
	}
}

func TestInlineConfigErrors(t *testing.T) {
	t.Parallel()
	if _, err := kafka.NewInline(noPool{}, goodInline()); err != nil {
		t.Fatal(err)
	}
	poison := func(context.Context, pgx.Tx, *sarama.ConsumerMessage, error) error { return nil }
	for want, change := range map[string]func(*kafka.InlineConfig[pgx.Tx]){
		"The consumer needs a name":    func(c *kafka.InlineConfig[pgx.Tx]) { c.Consumer = "" },
		"at most 1024 bytes":           func(c *kafka.InlineConfig[pgx.Tx]) { c.Consumer = strings.Repeat("c", 1025) },
		"bytes of text":                func(c *kafka.InlineConfig[pgx.Tx]) { c.Consumer = "a\x00" },
		"finds a message's id":         func(c *kafka.InlineConfig[pgx.Tx]) { c.ID = nil },
		"needs a handler":              func(c *kafka.InlineConfig[pgx.Tx]) { c.Handle = nil },
		"Attempts mean nothing":        func(c *kafka.InlineConfig[pgx.Tx]) { c.Attempts = 3 },
		"must not be negative":         func(c *kafka.InlineConfig[pgx.Tx]) { c.Attempts, c.Poison = -1, poison },
		"no shorter than the first":    func(c *kafka.InlineConfig[pgx.Tx]) { c.RetryMax = time.Millisecond },
		"the buffer must be larger":    func(c *kafka.InlineConfig[pgx.Tx]) { c.BufferBytes = -1 },
		"names that begin with pg_ fo": func(c *kafka.InlineConfig[pgx.Tx]) { c.Schema = "pg_inbox" },
	} {
		cfg := goodInline()
		change(&cfg)
		if _, err := kafka.NewInline(noPool{}, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	_, noPgx := kafka.NewInline((*pgxpool.Pool)(nil), goodInline())
	_, noSQL := kafka.NewInlineSQL(nil, kafka.InlineConfig[*sql.Tx]{})
	for _, err := range []error{noPgx, noSQL} {
		if err == nil || !strings.Contains(err.Error(), "pool of connections") {
			t.Errorf("without a pool: %v", err)
		}
	}
}

// fakeSession and fakeClaim are what the client gives to a handler.
type fakeSession struct {
	sarama.ConsumerGroupSession
	ctx context.Context
}

func (s fakeSession) Context() context.Context { return s.ctx }

type fakeClaim struct {
	sarama.ConsumerGroupClaim
	messages chan *sarama.ConsumerMessage
}

func (c fakeClaim) Messages() <-chan *sarama.ConsumerMessage { return c.messages }

// The client closes a claim's channel in the middle of a session when it cannot go
// on reading; it yields nil for ever then.
func TestInlineMessagesClosed(t *testing.T) {
	t.Parallel()
	cfg := goodInline()
	cfg.ID = func(m *sarama.ConsumerMessage) (string, error) {
		t.Errorf("handled %v", m)
		return "", nil
	}
	h, err := kafka.NewInline(noPool{}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	claim := fakeClaim{messages: make(chan *sarama.ConsumerMessage)}
	close(claim.messages)
	ended := make(chan error, 1)
	go func() { ended <- h.ConsumeClaim(fakeSession{ctx: t.Context()}, claim) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on without messages")
	}
}

func TestInlineIDs(t *testing.T) {
	t.Parallel()
	m := &sarama.ConsumerMessage{Topic: "a-b", Partition: 3, Offset: 17, Headers: []*sarama.RecordHeader{
		{Key: []byte("id"), Value: []byte("old")}, {Key: []byte("id"), Value: []byte("e1")}, nil, {Key: []byte("id")}, {Key: []byte("x"), Value: []byte("y")}}}
	if id, err := kafka.HeaderID("id")(m); id != "e1" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	if id, err := kafka.HeaderID("ID")(m); id != "" || err == nil || !strings.Contains(err.Error(), `no header "ID"`) {
		t.Errorf("%q, %v", id, err)
	}
	if id, err := kafka.OffsetID(m); id != "a-b-3-17" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}
