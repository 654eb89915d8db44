package kafka_test

import (
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

// Whoever asks a broker that leads a partition no more finds the one that does,
// long before the client asks for the leaders by itself.
func TestGroupFollowsTheLeaders(t *testing.T) {
	t.Parallel()
	three, w := fake(t, broker.Config{Ports: []int{0, 0, 0}})
	b := newBench(t, w)
	topic := b.topic("t", 3)
	cfg := b.config(topic)
	cfg.TopicRefresh = 30 * time.Second
	group, err := kafka.OpenGroup(cfg)
	b.check(err)
	b.Cleanup(group.Close)
	for i := range int64(3) {
		b.produce(topic, 0, 1, "v")
		partitions, err := group.Partitions(b.ctx)
		b.check(err)
		if len(partitions) != 3 || partitions[0].Newest != i+1 {
			t.Errorf("after %d moves: %+v", i, partitions)
		}
		moveLeaders(t, three, topic)
		b.newProducer()
		at, err := group.At(b.ctx, partitions, time.Unix(0, 0))
		b.check(err)
		if len(at) != 3 || at[0] != 0 {
			t.Errorf("after %d moves the first record is at %v", i+1, at)
		}
	}
}
