package kafka_test

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
)

// values collects the values of a partition; a topic that is made again has
// offsets that were there before.
func countValues(m *memory, topic string, prefix string) *atomic.Int64 {
	var n atomic.Int64
	seen := map[string]bool{}
	m.before = func(_ context.Context, records []inbox.Record) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, r := range records {
			v := string(r.Value)
			if r.Source.Topic == topic && strings.HasPrefix(v, prefix) && !seen[v] {
				seen[v] = true
				n.Add(1)
			}
		}
		return nil
	}
	return &n
}

// The new topic has more records than the old one had, so that the old position
// is in its log: to go on from there would skip the first of them.
func testTopicMadeAgain(b *bench) {
	topic, other := b.topic("t", 1), b.topic("other", 1)
	sink := newMemory()
	fresh := countValues(sink, topic, "new-")
	c := b.start(b.config(topic, other), sink)
	b.produce(topic, 0, 50, "old")
	sink.awaitCount(b, topic, 0, 50)
	b.awaitCommit(topic, 0, 50)

	b.deleteTopic(topic)
	b.create(topic, 1)
	b.produce(topic, 0, 80, "new")
	sink.await(b, "all records of the new topic are stored", func() bool { return fresh.Load() == 80 })
	b.awaitCommit(topic, 0, 80)
	b.produce(topic, 0, 1, "new-after")
	sink.await(b, "reading goes on", func() bool { return fresh.Load() == 81 })
	b.produce(other, 0, 1, "v")
	sink.awaitCount(b, other, 0, 1)
	c.stop()
}

// The old position is past the end of the new topic. That is no reason to stop.
func testTopicMadeAgainShorter(b *bench) {
	topic := b.topic("t", 1)
	sink := newMemory()
	fresh := countValues(sink, topic, "new-")
	b.start(b.config(topic), sink)
	b.produce(topic, 0, 50, "old")
	b.awaitCommit(topic, 0, 50)
	b.deleteTopic(topic)
	b.create(topic, 1)
	b.produce(topic, 0, 5, "new")
	sink.await(b, "all records of the new topic are stored", func() bool { return fresh.Load() == 5 })
	b.awaitCommit(topic, 0, 5)
	if strings.Contains(b.log.String(), "level=ERROR") {
		b.Errorf("a topic that was made again was taken for lost records:\n%s", b.log)
	}
}

// Whoever starts next must see by the commit that it is of another topic; a
// broker may have kept it.
func testTopicMadeAgainWhileStopped(b *bench) {
	topic := b.topic("t", 1)
	sink := newMemory()
	fresh := countValues(sink, topic, "new-")
	c := b.start(b.config(topic), sink)
	b.produce(topic, 0, 10, "old")
	b.awaitCommit(topic, 0, 10)
	c.stop()
	_, mark := b.committed(topic, 0)
	if !strings.HasPrefix(mark, "inboxd topic=") {
		b.Fatalf("the commit is marked with %q", mark)
	}
	b.deleteTopic(topic)
	b.create(topic, 1)
	b.produce(topic, 0, 30, "new")
	b.commitMarked(topic, 0, 10, mark) // by a member that did not know it yet
	b.start(b.config(topic), sink)
	sink.await(b, "all records of the new topic are stored", func() bool { return fresh.Load() == 30 })
	b.awaitCommit(topic, 0, 30)
}

// A missing topic is waited for while others are read, and its first records
// are read although the group starts with the newest.
func testTopicMissing(b *bench) {
	there, missing := b.topic("there", 1), b.group+".missing"
	sink := newMemory()
	cfg := b.config(there, missing)
	cfg.Start = kafka.Newest
	c := b.start(cfg, sink)
	c.awaitMember(1)
	b.produce(there, 0, 1, "v")
	sink.awaitCount(b, there, 0, 1)
	if reason := c.Stats().Missing[missing]; reason == "" {
		b.Errorf("the stats know of no missing topic: %v", c.Stats())
	}
	if !strings.Contains(b.log.String(), missing) {
		b.Errorf("the log does not name the missing topic:\n%s", b.log)
	}
	b.create(missing, 2)
	b.produce(missing, 1, 5, "v")
	sink.awaitCount(b, missing, 1, 5)
	b.eventually("nothing is missing", func() bool { return len(c.Stats().Missing) == 0 })
	sink.verify(b)
	if first := sink.of(missing, 1)[0].Source.Offset; first != 0 {
		b.Errorf("the first record had the offset %d", first)
	}
}

func testPartitionsAdded(b *bench) {
	topic := b.topic("t", 1)
	b.produce(topic, 0, 3, "before the group")
	sink := newMemory()
	cfg := b.config(topic)
	cfg.Start = kafka.Newest
	c := b.start(cfg, sink)
	b.awaitCommit(topic, 0, 3)
	b.addPartitions(topic, 3)
	b.produce(topic, 2, 5, "v")
	sink.awaitCount(b, topic, 2, 5)
	c.stop()

	// Also when nobody was there when they were added.
	b.addPartitions(topic, 4)
	b.produce(topic, 3, 5, "v")
	b.start(cfg, sink)
	sink.awaitCount(b, topic, 3, 5)
	for p := int32(2); p < 4; p++ {
		if first := sink.of(topic, p)[0].Source.Offset; first != 0 {
			b.Errorf("the first record of partition %d had the offset %d", p, first)
		}
	}
	if sink.count(topic, 0) != 0 {
		b.Error("records from before the group's start were read")
	}
}

func testStart(b *bench) {
	topic := b.topic("t", 1)
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for i := range 3 {
		r := &inbox.Record{Time: at.Add(time.Duration(i) * time.Minute), Source: inbox.Source{Topic: topic}}
		b.check(b.producer.Produce(b.ctx, r))
	}
	for start, first := range map[kafka.Start]int64{
		kafka.Oldest: 0, kafka.Newest: 3, kafka.StartAt(at.Add(time.Minute)): 1,
		kafka.StartAt(at.Add(-time.Hour)): 0, kafka.StartAt(time.Now().Add(time.Hour)): 3,
	} {
		b.group += "x"
		cfg := b.config(topic)
		cfg.Start = start
		sink := newMemory()
		c := b.start(cfg, sink)
		b.eventually("the beginning is committed", func() bool { got, _ := b.committed(topic, 0); return got >= first })
		b.produce(topic, 0, 1, "v")
		sink.awaitCount(b, topic, 0, 1)
		if got := sink.of(topic, 0)[0].Source.Offset; got != first {
			b.Errorf("%v began at %d instead of %d", start, got, first)
		}
		c.stop()
		b.deleteTopic(topic)
		b.create(topic, 1)
		for i := range 3 {
			r := &inbox.Record{Time: at.Add(time.Duration(i) * time.Minute), Source: inbox.Source{Topic: topic}}
			b.check(b.producer.Produce(b.ctx, r))
		}
	}
}
