package kafka_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
)

// Members come and go while records are written.
func testRebalance(b *bench) {
	topic := b.topic("t", 4)
	sink := newMemory() // one for all members
	const n = 60        // times 4 partitions times 20 records
	written := make(chan error, 1)
	go func() {
		spread := time.NewTicker(20 * time.Millisecond) // over the rebalances
		defer spread.Stop()
		for range n {
			for p := range int32(4) {
				records := make([]*inbox.Record, 20)
				for i := range records {
					records[i] = &inbox.Record{Value: []byte("v"), Source: inbox.Source{Topic: topic, Partition: p}}
				}
				if err := b.producer.Produce(b.ctx, records...); err != nil {
					written <- err
					return
				}
			}
			<-spread.C
		}
		written <- nil
	}()
	var highest [4]int64
	commitsGoForward := func() {
		for p := range int32(4) {
			got, _ := b.committed(topic, p)
			if got < highest[p] {
				b.Errorf("the offset of %d went from %d back to %d", p, highest[p], got)
			}
			highest[p] = max(highest[p], got)
		}
	}
	stays := b.start(b.config(topic), sink)
	stays.awaitMember(4)
	for range 3 {
		second := b.start(b.config(topic), sink)
		second.awaitMember(2)
		commitsGoForward()
		third := b.start(b.config(topic), sink)
		third.awaitMember(1)
		commitsGoForward()
		second.stop()
		commitsGoForward()
		third.stop()
		stays.awaitMember(4)
		commitsGoForward()
	}
	b.check(<-written)
	for p := range int32(4) {
		sink.awaitCount(b, topic, p, n*20)
		b.awaitCommit(topic, p, n*20)
	}
	sink.verify(b)
	b.Logf("%d of %d records came twice", sink.twice, sink.total())
}

// A member that the group has given up, and that does not know it yet, commits
// nothing; what it stored comes again to the next one.
func testMemberFrozenOut(b *bench) {
	topic := b.topic("t", 1)
	sink := newMemory()
	entered, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	sink.before = func(_ context.Context, records []inbox.Record) error {
		if once.CompareAndSwap(false, true) {
			close(entered)
			<-release
		}
		return nil
	}
	cfg := b.config(topic)
	cfg.StopTimeout = time.Minute
	old := b.start(cfg, sink)
	b.produce(topic, 0, 5, "v")
	<-entered
	old.Crash() // it goes on, but neither heartbeats nor commits arrive

	sink2 := newMemory()
	b.start(b.config(topic), sink2)
	sink2.awaitCount(b, topic, 0, 5)
	b.awaitCommit(topic, 0, 5)
	close(release)
	old.stop()
	if got, _ := b.committed(topic, 0); got != 5 {
		b.Errorf("offset %d is committed", got)
	}
}

// The records that are being stored when the group is rebalanced are stored and
// committed before anybody else gets their partition.
func testRebalanceWaits(b *bench) {
	topic := b.topic("t", 2)
	sink := newMemory() // one for both members
	entered, release := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	sink.before = func(_ context.Context, records []inbox.Record) error {
		if once.CompareAndSwap(false, true) {
			close(entered)
			<-release
		}
		return nil
	}
	first := b.start(b.config(topic), sink)
	first.awaitMember(2)
	b.produce(topic, 0, 5, "v")
	<-entered
	second := b.start(b.config(topic), sink)
	select {
	case <-time.After(1500 * time.Millisecond): // a rebalance takes a third of it
	case <-second.ended:
	}
	if st := second.Stats(); st.Member != "" {
		b.Error("the group was rebalanced while records were being stored")
	}
	close(release)
	second.awaitMember(1)
	first.awaitMember(1)
	for p := range int32(2) {
		n := sink.count(topic, p)
		b.produce(topic, p, 5, "w")
		sink.awaitCount(b, topic, p, n+5)
	}
	sink.awaitCount(b, topic, 0, 10)
	sink.verifyOnce(b)
}

// A partition whose fetching was stopped because the buffer was full goes on
// after it was given out anew.
func testPausedOverRebalance(b *bench) {
	topic := b.topic("t", 1)
	sink := newMemory()
	var heal atomic.Bool
	sink.before = func(context.Context, []inbox.Record) error {
		if heal.Load() {
			return nil
		}
		return errDown
	}
	cfg := b.config(topic)
	cfg.BufferBytes = 64 << 10
	first := b.start(cfg, sink)
	for range 20 {
		b.produceNoise(topic, 0, 20, 1000)
	}
	b.eventually("fetching is stopped", func() bool { return kafka.Paused(first.Source) == 1 })
	generation := first.Stats().Generation
	second := b.start(cfg, sink)
	b.eventually("the group is rebalanced", func() bool {
		st := first.Stats()
		return st.Member != "" && st.Generation > generation
	})
	second.stop()
	first.awaitMember(1)
	heal.Store(true)
	sink.awaitCount(b, topic, 0, 400)
	sink.verifyOnce(b)
}
