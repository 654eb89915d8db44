package kafka_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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
	f, w := fake(t, broker.Config{})
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

	// What nobody may read yet is no lag.
	tx := b.transactional(topic)
	b.check(tx.BeginTransaction())
	tx.Produce(b.ctx, kgo.StringRecord("open"), nil)
	b.check(tx.Flush(b.ctx))
	var asked atomic.Int64
	f.Cluster().ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		asked.Add(1)
		return nil, nil, false
	})
	b.eventually("the ends were asked for, and answered, after that", func() bool { return asked.Load() >= 3 })
	if p, _ := c.partition(topic, 0); p.End != 12 || p.Lag != 0 {
		t.Errorf("with a transaction that is open: %+v", p)
	}
}
