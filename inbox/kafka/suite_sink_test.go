package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
)

var errDown = errors.New("the database is away")

func testFailingSink(b *bench) {
	topic := b.topic("t", 3)
	sink := newMemory()
	var tries atomic.Int64
	var heal atomic.Bool
	sink.before = func(context.Context, []inbox.Record) error {
		if tries.Add(1) <= 8 || !heal.Load() {
			return errDown
		}
		return nil
	}
	for p := range int32(3) {
		b.produce(topic, p, 100, "v")
	}
	c := b.start(b.config(topic), sink)
	b.eventually("a partition is being tried again", func() bool {
		p, ok := c.partition(topic, 0)
		return ok && p.State == kafka.Retrying && p.LastError == errDown.Error()
	})
	before := c.Stats()
	heal.Store(true)
	for p := range int32(3) {
		sink.awaitCount(b, topic, p, 100)
		b.awaitCommit(topic, p, 100)
	}
	if after := c.Stats(); after.Member != before.Member || after.Generation != before.Generation {
		b.Errorf("the member %s/%d became %s/%d", before.Member, before.Generation, after.Member, after.Generation)
	}
	sink.verifyOnce(b)
	if n := bytes.Count([]byte(b.log.String()), []byte(errDown.Error())); n != 1 {
		b.Errorf("the outage was logged %d times", n)
	}
}

// What can never be stored must not keep others from being stored.
func testOnePartitionFails(b *bench) {
	topic := b.topic("t", 4)
	sink := newMemory()
	var heal atomic.Bool
	sink.before = func(_ context.Context, records []inbox.Record) error {
		for _, r := range records {
			if r.Source.Partition == 0 && !heal.Load() {
				return errDown
			}
		}
		return nil
	}
	cfg := b.config(topic)
	cfg.Workers = 1
	b.start(cfg, sink)
	for range 10 {
		for p := range int32(4) {
			b.produce(topic, p, 10, "v")
		}
	}
	for p := int32(1); p < 4; p++ {
		sink.awaitCount(b, topic, p, 100)
	}
	if n := sink.count(topic, 0); n != 0 {
		b.Errorf("%d records of the failing partition are stored", n)
	}
	heal.Store(true)
	sink.awaitCount(b, topic, 0, 100)
	sink.verifyOnce(b)
}

// A call that takes longer than the session time-out holds up neither other
// partitions nor the membership.
func testSlowSink(b *bench) {
	topic := b.topic("t", 2)
	sink := newMemory()
	entered, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	sink.before = func(_ context.Context, records []inbox.Record) error {
		if records[0].Source.Partition == 0 && once.CompareAndSwap(false, true) {
			close(entered)
			<-release
		}
		return nil
	}
	cfg := b.config(topic)
	cfg.SessionTimeout = 5 * time.Second
	c := b.start(cfg, sink)
	c.awaitMember(2)
	before := c.Stats()
	b.produce(topic, 0, 10, "v")
	<-entered
	n := 0
	for end := time.Now().Add(2 * cfg.SessionTimeout); time.Now().Before(end); n++ {
		b.produce(topic, 1, 1, "v")
		sink.awaitCount(b, topic, 1, n+1)
	}
	close(release)
	sink.awaitCount(b, topic, 0, 10)
	b.awaitCommit(topic, 0, 10)
	if after := c.Stats(); after.Generation != before.Generation {
		b.Errorf("generation %d became %d", before.Generation, after.Generation)
	}
	sink.verifyOnce(b)
	b.Logf("%d round trips beside the slow call", n)
}

// A call that takes longer than a rebalance may is cut short, and its records
// come again. The member stays in the group.
func testSlowSinkOverRebalance(b *bench) {
	topic := b.topic("t", 2)
	sink := newMemory()
	entered := make(chan struct{})
	var calls, cut atomic.Int64
	sink.before = func(ctx context.Context, _ []inbox.Record) error {
		if calls.Add(1) > 1 {
			return nil
		}
		close(entered)
		<-ctx.Done() // a statement that waits for a lock, until it is cancelled
		cut.Add(1)
		return ctx.Err()
	}
	first := b.start(b.config(topic), sink)
	first.awaitMember(2)
	before := first.Stats()
	b.produce(topic, 0, 10, "v")
	<-entered
	second := b.start(b.config(topic), sink)
	second.awaitMember(1)
	first.awaitMember(1)
	if after := first.Stats(); after.Member != before.Member {
		b.Errorf("the member %s became %s", before.Member, after.Member)
	}
	if cut.Load() != 1 {
		b.Errorf("%d calls were cut short", cut.Load())
	}
	sink.awaitCount(b, topic, 0, 10)
	b.awaitAllCommitted(topic, 2)
	sink.verifyOnce(b)
}

// Partitions that cannot be stored fill the buffer and no more.
func testBoundedBuffer(b *bench) {
	topic := b.topic("t", 3)
	sink := newMemory()
	release := make(chan struct{})
	sink.before = func(_ context.Context, records []inbox.Record) error {
		if records[0].Source.Partition != 2 {
			<-release
		}
		return nil
	}
	cfg := b.config(topic)
	cfg.BufferBytes, cfg.Workers, cfg.BatchRecords = 1<<20, 3, 10
	c := b.start(cfg, sink)
	c.awaitMember(3)
	for range 80 {
		for p := range int32(2) {
			b.produceNoise(topic, p, 100, 1000)
		}
	}
	held := func() (n int) {
		for _, p := range c.Stats().Partitions {
			n += p.BufferedBytes
		}
		return n
	}
	b.eventually("the buffer is used", func() bool { return held() > cfg.BufferBytes/4 })
	for i := range 30 { // thirty fetches, each of which could bring more
		b.produce(topic, 2, 1, "v")
		sink.awaitCount(b, topic, 2, i+1)
	}
	if n := held(); n > 2*cfg.BufferBytes { // some fetches are on their way when a partition is paused
		b.Errorf("%d bytes are held, with a buffer of %d", n, cfg.BufferBytes)
	}
	close(release)
	for p := range int32(2) {
		sink.awaitCount(b, topic, p, 8000)
	}
	sink.verifyOnce(b)
}
