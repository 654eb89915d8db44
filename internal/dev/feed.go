package dev

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/broker"
)

// Sent counts what a Feed has produced.
type Sent struct {
	Events, Twice, Poison int64
}

// Records is how many records that were.
func (s Sent) Records() int64 { return s.Events + s.Twice + s.Poison }

// Feed sends a stream to a broker as an imperfect producer does: some records
// twice, a while later, and once one that is no event at all.
type Feed struct {
	stream   *Stream
	producer *broker.Producer
	rng      *rand.Rand
	again    []*inbox.Record // to be sent once more

	events, twice, poison atomic.Int64
}

// NewFeed makes a Feed, which has to be closed.
func NewFeed(stream *Stream, seed uint64, brokers ...string) (*Feed, error) {
	producer, err := broker.NewProducer(brokers...)
	if err != nil {
		return nil, err
	}
	return &Feed{stream: stream, producer: producer, rng: rand.New(rand.NewPCG(seed, 1))}, nil
}

// Close gives up the connection.
func (f *Feed) Close() { f.producer.Close() }

// Sent answers what was sent so far. It may be called at any time.
func (f *Feed) Sent() Sent {
	return Sent{Events: f.events.Load(), Twice: f.twice.Load(), Poison: f.poison.Load()}
}

// feedBatch is how many events are sent at once.
const feedBatch = 50

// Send sends the next n events, and 5 % of them twice.
func (f *Feed) Send(ctx context.Context, n int) error {
	for n > 0 {
		k := min(n, feedBatch)
		if err := f.send(ctx, k); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

func (f *Feed) send(ctx context.Context, n int) error {
	again := f.again
	f.again = nil
	records := make([]*inbox.Record, 0, n+len(again))
	for range n {
		r := f.stream.Next().record()
		records = append(records, r)
		if f.rng.IntN(20) == 0 {
			f.again = append(f.again, copyOf(r))
		}
	}
	records = append(records, again...)
	if err := f.producer.Produce(ctx, records...); err != nil {
		return err
	}
	f.events.Add(int64(n))
	f.twice.Add(int64(len(again)))
	return nil
}

// Flush sends what is left to be sent twice.
func (f *Feed) Flush(ctx context.Context) error { return f.send(ctx, 0) }

// SendPoison sends a record that cannot become an event.
func (f *Feed) SendPoison(ctx context.Context) error {
	r := &inbox.Record{
		Key:    []byte("order-001"),
		Value:  []byte("{\"eventId\": \"order-001-99\", \"eventType\": \"OrderPlaced\", \"note\": \"cut \x00 off"),
		Source: inbox.Source{Topic: OrdersTopic, Partition: broker.ByKey},
	}
	if err := f.producer.Produce(ctx, r); err != nil {
		return err
	}
	f.poison.Add(1)
	return nil
}

// Run sends about perSecond events a second until ctx ends. It begins behind the
// first skip events, which an earlier run has sent.
func (f *Feed) Run(ctx context.Context, perSecond int, skip int64) error {
	for range skip {
		f.stream.Next()
	}
	const every = 100 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := f.Send(ctx, max(1, perSecond/10)); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func copyOf(r *inbox.Record) *inbox.Record {
	c := *r
	c.Source.Partition = broker.ByKey
	return &c
}

// RunFeed sends the stream of the shop that goes on, behind what is stored of
// it, until ctx ends.
func RunFeed(ctx context.Context, i *Instance, schema string, pool *pgxpool.Pool, perSecond int) error {
	const seed = 1
	var stored int64
	sql := "select count(*) from " + pgx.Identifier{schema, "inbox"}.Sanitize()
	if err := pool.QueryRow(ctx, sql).Scan(&stored); err != nil {
		return fmt.Errorf("count the events of the stream: %w", err)
	}
	f, err := NewFeed(NewStream(seed, 0), seed, i.Broker.Addrs()...)
	if err != nil {
		return err
	}
	defer f.Close()
	if stored == 0 {
		if err := f.SendPoison(ctx); err != nil {
			return err
		}
	}
	return f.Run(ctx, perSecond, stored)
}
