package kafka_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

// counter is a Sink that only counts, and tells when it has counted enough.
type counter struct {
	n, batches, enough atomic.Int64
	done               chan struct{}
}

func (c *counter) Ingest(_ context.Context, records []inbox.Record) error {
	c.batches.Add(1)
	if n := c.n.Add(int64(len(records))); n >= c.enough.Load() && n-int64(len(records)) < c.enough.Load() {
		close(c.done)
	}
	return nil
}

// BenchmarkRead reads a topic of 6 partitions and 300,000 records of 200 bytes
// from its beginning, into a Sink that does nothing. The broker runs in the same
// process.
func BenchmarkRead(b *testing.B) {
	const partitions, each = 6, 50_000
	fake, err := broker.Start(broker.Config{Topics: map[string]int32{"t": partitions}})
	if err != nil {
		b.Fatal(err)
	}
	defer fake.Close()
	benchFill(b, fake, partitions, each)
	b.ReportAllocs()
	groups, batches := 0, int64(0)
	for b.Loop() {
		groups++
		sink := &counter{done: make(chan struct{})}
		sink.enough.Store(partitions * each)
		source, err := kafka.New(kafka.Config{
			Brokers: fake.Addrs(), Group: "g" + strconv.Itoa(groups), Topics: []string{"t"},
			Log: slog.New(slog.DiscardHandler),
		}, sink)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- source.Run(ctx) }()
		<-sink.done
		b.StopTimer()
		cancel()
		<-ended
		batches += sink.batches.Load()
		b.StartTimer()
	}
	n := float64(partitions*each) * float64(groups)
	b.ReportMetric(n/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(n/float64(batches), "records/batch")
}

func benchFill(b *testing.B, fake *broker.Broker, partitions int32, each int) {
	producer, err := broker.NewProducer(fake.Addrs()...)
	if err != nil {
		b.Fatal(err)
	}
	defer producer.Close()
	for p := range partitions {
		for i := 0; i < each; i += 5000 {
			records := make([]*inbox.Record, 5000)
			for j := range records {
				records[j] = &inbox.Record{Key: []byte(strconv.Itoa(i + j)), Value: make([]byte, 200), Source: inbox.Source{Topic: "t", Partition: p}}
			}
			if err := producer.Produce(b.Context(), records...); err != nil {
				b.Fatal(err)
			}
		}
	}
}
