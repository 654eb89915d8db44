package kafka_test

import (
	"testing"

	"github.com/inboxd/inboxd/internal/broker"
)

// After a stop the stats say how far the source was, and that it is no member.
func TestStatsAfterStop(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	b := newBench(t, w)
	topic := b.topic("t", 2)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	b.produce(topic, 0, 7, "v")
	sink.awaitCount(b, topic, 0, 7)
	c.stop()
	st := c.Stats()
	if st.Member != "" || len(st.Partitions) != 2 {
		t.Fatalf("stats %+v", st)
	}
	if p := st.Partitions[0]; p.Position != 7 || p.Committed != 7 || p.Lag != 0 {
		t.Errorf("partition %+v", p)
	}
}

// Lag and position of a partition, as far as they are behind.
func TestLag(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	b := newBench(t, w)
	topic := b.topic("t", 1)
	b.produce(topic, 0, 7, "v")
	sink := newMemory()
	entered, release := blocked(sink)
	c := b.start(b.config(topic), sink)
	<-entered
	b.produce(topic, 0, 5, "v")
	b.eventually("the lag is known", func() bool {
		p, ok := c.partition(topic, 0)
		return ok && p.End == 12 && p.Lag == 12 && p.Position == 0
	})
	close(release)
	b.eventually("there is no lag", func() bool {
		p, ok := c.partition(topic, 0)
		return ok && p.End == 12 && p.Lag == 0 && p.Position == 12 && p.Committed == 12
	})
}
