package broker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/inboxd/inboxd/inbox"
)

// Producer writes records, to the embedded broker or to any other.
type Producer struct{ client *kgo.Client }

// NewProducer returns a producer for the brokers at addrs. It connects when it
// first has something to write.
func NewProducer(addrs ...string) (*Producer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(addrs...),
		kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchMaxBytes(64<<20), // the broker decides what is too large
	)
	if err != nil {
		return nil, fmt.Errorf("new producer: %w", err)
	}
	return &Producer{client: client}, nil
}

// ByKey as a record's partition leaves the choice to its key, as Kafka's own
// clients make it.
const ByKey int32 = -1

// Produce writes the records and waits until the broker has all of them. Each
// goes to its Source's topic and partition; a partition of ByKey is chosen by
// the key. On success the Sources say where the records are. A zero Time is now.
func (p *Producer) Produce(ctx context.Context, records ...*inbox.Record) error {
	out := make([]*kgo.Record, len(records))
	for i, r := range records {
		out[i] = &kgo.Record{
			Topic: r.Source.Topic, Partition: r.Source.Partition,
			Key: r.Key, Value: r.Value, Timestamp: r.Time,
		}
		for _, h := range r.Headers {
			out[i].Headers = append(out[i].Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
	}
	if err := p.client.ProduceSync(ctx, out...).FirstErr(); err != nil {
		return fmt.Errorf("produce %d records: %w", len(records), err)
	}
	for i, r := range records {
		r.Source.Partition, r.Source.Offset = out[i].Partition, out[i].Offset
	}
	return nil
}

// Close ends the producer's goroutines.
func (p *Producer) Close() { p.client.Close() }

// partitioner lets a record name its partition and otherwise asks the usual one.
type partitioner struct{ byKey kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.byKey.ForTopic(topic)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

func (t topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || t.TopicPartitioner.RequiresConsistency(r)
}

func (t topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return t.TopicPartitioner.Partition(r, n)
}
