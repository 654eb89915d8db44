package kafka_test

import (
	"context"
	"sync/atomic"

	"github.com/inboxd/inboxd/inbox/kafka"
)

// remembering has a configuration remember what a source said last.
func remembering(cfg kafka.Config, last *[]kafka.PartitionStats) kafka.Config {
	cfg.Remembered = func(context.Context) ([]kafka.Remembered, error) {
		var all []kafka.Remembered
		for _, p := range *last {
			all = append(all, kafka.Remembered{Topic: p.Topic, Partition: p.Partition, TopicID: p.TopicID, Position: p.Position})
		}
		return all, nil
	}
	return cfg
}

// Kafka forgets the offsets of a group that is away for long. What was written
// meanwhile is read nevertheless, wherever a group starts, and so is a partition
// that was added; what is no longer in the log stops its partition.
func testOffsetsForgotten(b *bench) {
	topic := b.topic("t", 3)
	var last []kafka.PartitionStats
	cfg := remembering(b.config(topic), &last)
	cfg.Start = kafka.Newest
	sink := newMemory()
	first := b.start(cfg, sink)
	first.awaitMember(3)
	for p := range int32(3) {
		b.produce(topic, p, 5, "v")
		sink.awaitCount(b, topic, p, 5)
	}
	first.stop()
	last = first.Stats().Partitions

	b.group += ".forgotten" // a group without offsets is as good as one that was forgotten
	cfg.Group = b.group
	for p := range int32(3) {
		b.produce(topic, p, 5, "w")
	}
	b.deleteRecords(topic, 2, 7)
	b.addPartitions(topic, 4)
	b.produce(topic, 3, 5, "w")
	second := b.start(cfg, sink)
	for p, n := range map[int32]int{0: 10, 1: 10, 3: 5} {
		sink.awaitCount(b, topic, p, n)
		b.awaitCommit(topic, p, int64(n))
	}
	b.eventually("the partition is stopped", func() bool {
		p, ok := second.partition(topic, 2)
		return ok && p.State == kafka.Stopped && p.Position == 5
	})
	b.awaitLog("Kafka has forgotten it")
	second.stop()
	sink.verifyOnce(b)
	if got := sink.count(topic, 2); got != 5 {
		b.Errorf("partition 2 has %d records", got)
	}
}

// What is remembered of a topic that was deleted says nothing about the one that
// has its name now.
func testForgottenTopicMadeAgain(b *bench) {
	topic := b.topic("t", 1)
	var last []kafka.PartitionStats
	cfg := remembering(b.config(topic), &last)
	sink := newMemory()
	first := b.start(cfg, sink)
	b.produce(topic, 0, 5, "v")
	sink.awaitCount(b, topic, 0, 5)
	first.stop()
	last = first.Stats().Partitions

	b.deleteTopic(topic)
	b.create(topic, 1)
	b.produce(topic, 0, 10, "w")
	b.group += ".forgotten"
	cfg.Group = b.group
	fresh := newMemory()
	b.start(cfg, fresh)
	fresh.awaitCount(b, topic, 0, 10)
	fresh.verifyOnce(b)
}

// Nothing is read before it is known what is remembered.
func testRememberedLater(b *bench) {
	topic := b.topic("t", 1)
	b.produce(topic, 0, 5, "v")
	cfg := b.config(topic)
	var asked atomic.Int64
	cfg.Remembered = func(context.Context) ([]kafka.Remembered, error) {
		if asked.Add(1) < 3 {
			return nil, errDown
		}
		return nil, nil
	}
	sink := newMemory()
	b.start(cfg, sink)
	sink.awaitCount(b, topic, 0, 5)
	if asked.Load() < 3 {
		b.Errorf("it began although what is remembered was not known: asked %d times", asked.Load())
	}
}
