package kafka_test

import (
	"context"
	"strings"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
)

// awaitStopped waits until a partition is stopped, and checks that it is said
// aloud and that the group's offset stays.
func (b *bench) awaitStopped(c *consumer, topic string, partition int32, committed int64) {
	b.Helper()
	b.eventually("the partition is stopped", func() bool {
		p, _ := c.partition(topic, partition)
		return p.State == kafka.Stopped
	})
	b.eventually("the stop is marked", func() bool {
		_, mark := b.committed(topic, partition)
		return strings.HasSuffix(mark, "stopped")
	})
	if got, _ := b.committed(topic, partition); got != committed {
		b.Errorf("offset %d is committed instead of %d", got, committed)
	}
	if !strings.Contains(b.log.String(), "level=ERROR") {
		b.Errorf("nothing was said aloud:\n%s", b.log)
	}
}

// The records after the committed offset were deleted while nobody read.
func testLogStartPassed(b *bench) {
	topic := b.topic("t", 2)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	b.produce(topic, 0, 10, "v")
	b.awaitCommit(topic, 0, 10)
	c.stop()
	b.produce(topic, 0, 10, "v")
	b.deleteRecords(topic, 0, 15)

	for range 2 { // it does not heal by being started again
		c = b.start(b.config(topic), sink)
		b.awaitStopped(c, topic, 0, 10)
		before := sink.count(topic, 1)
		b.produce(topic, 1, 3, "v")
		sink.awaitCount(b, topic, 1, before+3)
		c.stop()
	}
	if n := sink.count(topic, 0); n != 10 {
		b.Fatalf("%d records of the stopped partition are stored", n)
	}

	b.commit(topic, 0, 15) // the way on
	sink.mu.Lock()
	delete(sink.next, place{topic, 0})
	sink.mu.Unlock()
	b.start(b.config(topic), sink)
	sink.awaitCount(b, topic, 0, 15)
	sink.verifyOnce(b)
	if got := sink.of(topic, 0)[10].Source.Offset; got != 15 {
		b.Errorf("it went on at %d", got)
	}
}

func testLogStartPassedWhileReading(b *bench) {
	topic := b.topic("t", 2)
	sink := newMemory()
	entered, release := make(chan struct{}, 1000), make(chan struct{})
	sink.before = func(_ context.Context, records []inbox.Record) error {
		if records[0].Source.Partition == 0 {
			entered <- struct{}{}
			<-release
		}
		return nil
	}
	cfg := b.config(topic)
	cfg.BufferBytes = 64 << 10 // so that most is not fetched yet
	cfg.BatchRecords = 10
	c := b.start(cfg, sink)
	c.awaitMember(2)
	for range 40 {
		b.produceNoise(topic, 0, 20, 10_000)
	}
	<-entered
	b.deleteRecords(topic, 0, 800)
	b.produce(topic, 0, 10, "v")
	close(release)
	b.eventually("the partition is stopped", func() bool {
		p, _ := c.partition(topic, 0)
		return p.State == kafka.Stopped && p.Buffered == 0
	})
	b.produce(topic, 1, 3, "v")
	sink.awaitCount(b, topic, 1, 3)
	sink.verifyOnce(b)
	got := sink.count(topic, 0)
	b.awaitCommit(topic, 0, int64(got))
	b.awaitStopped(c, topic, 0, int64(got))
	if got >= 800 {
		b.Errorf("%d records were fetched before they were deleted", got)
	}
}

// The committed offset is past the end, as after a restored broker. When the
// log has grown past it, to go on would skip what was written meanwhile.
func testLogEndNotReached(b *bench) {
	topic := b.topic("t", 1)
	b.produce(topic, 0, 10, "v")
	b.commit(topic, 0, 100)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	b.awaitStopped(c, topic, 0, 100)
	c.stop()
	b.produce(topic, 0, 200, "v")
	c = b.start(b.config(topic), sink)
	b.awaitStopped(c, topic, 0, 100)
	c.stop()
	if sink.total() != 0 {
		b.Errorf("%d records were stored", sink.total())
	}
}
