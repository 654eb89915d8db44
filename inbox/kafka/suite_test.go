package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
)

// suite is what a source must do on any cluster.
func suite(t *testing.T, w world) {
	for _, tt := range []struct {
		name string
		run  func(*bench)
	}{
		{"members come and go", testChurn}, // the longest first
		{"a million records", testMany},
		{"in order and once", testInOrderAndOnce},
		{"every codec", testCodecs},
		{"byte-exact", testByteExact},
		{"large records", testLargeRecords},
		{"crash between store and commit", testCrash},
		{"offsets only after Ingest", testOffsetsOnlyAfterIngest},
		{"clean stop commits", testCleanStop},
		{"stop cuts Ingest short", testStopCutsShort},
		{"failing sink", testFailingSink},
		{"one partition fails", testOnePartitionFails},
		{"slow sink", testSlowSink},
		{"slow sink over a rebalance", testSlowSinkOverRebalance},
		{"bounded buffer", testBoundedBuffer},
		{"bounded buffer of compressed records", testCompressed},
		{"bounded buffer of large records", testManyLarge},
		{"rebalance", testRebalance},
		{"rebalance waits for Ingest", testRebalanceWaits},
		{"paused over a rebalance", testPausedOverRebalance},
		{"member frozen out", testMemberFrozenOut},
		{"topic made again", testTopicMadeAgain},
		{"topic made again shorter", testTopicMadeAgainShorter},
		{"topic made again while stopped", testTopicMadeAgainWhileStopped},
		{"topic missing", testTopicMissing},
		{"partitions added", testPartitionsAdded},
		{"start", testStart},
		{"log start passed", testLogStartPassed},
		{"log start passed while reading", testLogStartPassedWhileReading},
		{"log end not reached", testLogEndNotReached},
		{"offsets forgotten", testOffsetsForgotten},
		{"offsets forgotten of a topic made again", testForgottenTopicMadeAgain},
		{"remembered later", testRememberedLater},
		{"transactions", testTransactions},
		{"much aborted", testLongAborted},
		{"end of a transaction deleted", testTransactionEndDeleted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(newBench(t, w))
		})
	}
}

// suiteOfThree is what it must do besides on a cluster of three brokers.
func suiteOfThree(t *testing.T, w world) {
	for _, tt := range []struct {
		name string
		run  func(*bench)
	}{
		{"leaders move", testLeadersMove},
		{"in order and once", testInOrderAndOnce},
		{"rebalance", testRebalance},
		{"transactions", testTransactions},
		{"topic made again", testTopicMadeAgain},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(newBench(t, w)) })
	}
}

func testInOrderAndOnce(b *bench) {
	topic := b.topic("t", 3)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	const n = 2000
	for range 4 {
		for p := range int32(3) {
			b.produce(topic, p, n/4, "v")
		}
	}
	for p := range int32(3) {
		sink.awaitCount(b, topic, p, n)
		b.awaitCommit(topic, p, n)
	}
	c.stop()
	sink.verifyOnce(b)
	if sink.total() != 3*n {
		b.Errorf("%d records are stored", sink.total())
	}
}

func testByteExact(b *bench) {
	topic := b.topic("t", 1)
	sink := newMemory()
	at := time.Now().Add(-time.Minute).Truncate(time.Millisecond) // what is old may be deleted
	src := inbox.Source{Topic: topic}
	sent := []*inbox.Record{
		{Source: src, Time: at},
		{Source: src, Time: at, Key: []byte{}, Value: []byte{}},
		{Source: src, Time: at, Key: []byte{0, 0xff}, Value: []byte("\x00\xfe{")},
		{Source: src, Time: at, Value: []byte("v"), Headers: []inbox.Header{
			{Name: "a", Value: []byte{0xff}}, {Name: "a"}, {Name: "", Value: []byte{}}, {Name: "é", Value: []byte("x")}}},
	}
	b.check(b.producer.Produce(b.ctx, sent...))
	b.start(b.config(topic), sink)
	sink.awaitCount(b, topic, 0, len(sent))
	for i, got := range sink.of(topic, 0) {
		want := sent[i]
		same := bytes.Equal(got.Key, want.Key) && (got.Key == nil) == (want.Key == nil) &&
			bytes.Equal(got.Value, want.Value) && (got.Value == nil) == (want.Value == nil) &&
			got.Time.Equal(want.Time) && got.Source == want.Source &&
			slices.EqualFunc(got.Headers, want.Headers, func(x, y inbox.Header) bool {
				return x.Name == y.Name && bytes.Equal(x.Value, y.Value) && (x.Value == nil) == (y.Value == nil)
			})
		if !same {
			b.Errorf("sent %+v, got %+v", want, got)
		}
	}
}

func testLargeRecords(b *bench) {
	topic := b.topic("t", 2)
	sink := newMemory()
	cfg := b.config(topic)
	cfg.BufferBytes, cfg.BatchBytes = 1<<20, 1<<18
	b.start(cfg, sink)
	large := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	for range 3 {
		r := &inbox.Record{Value: large, Source: inbox.Source{Topic: topic}}
		b.check(b.producer.Produce(b.ctx, r))
		b.produce(topic, 1, 10, "small")
	}
	sink.awaitCount(b, topic, 0, 3)
	sink.awaitCount(b, topic, 1, 30)
	for _, r := range sink.of(topic, 0) {
		if !bytes.Equal(r.Value, large) {
			b.Error("a large record has changed")
		}
	}
	sink.verifyOnce(b)
}

// The process dies after its database has committed and before Kafka knows.
func testCrash(b *bench) {
	topic := b.topic("t", 1)
	sink := newMemory()
	stored := make(chan struct{})
	sink.after = func(ctx context.Context, records []inbox.Record) error {
		close(stored)
		<-ctx.Done()
		return ctx.Err()
	}
	b.produce(topic, 0, 10, "v")
	cfg := b.config(topic)
	cfg.StopTimeout = 10 * time.Millisecond
	first := b.start(cfg, sink)
	<-stored
	first.crash()
	before := sink.count(topic, 0)
	if before == 0 {
		b.Fatal("nothing was stored before the crash")
	}

	sink.after = nil
	b.produce(topic, 0, 10, "w")
	b.start(b.config(topic), sink)
	sink.awaitCount(b, topic, 0, 20)
	b.awaitCommit(topic, 0, 20)
	sink.verify(b)
	if sink.twice != before {
		b.Errorf("%d records were stored before the crash, and %d came again", before, sink.twice)
	}
}

// An offset that is committed before its record is stored is a lost record.
func testOffsetsOnlyAfterIngest(b *bench) {
	topic := b.topic("t", 2)
	sink := newMemory()
	entered, release := make(chan struct{}, 100), make(chan struct{})
	sink.after = func(ctx context.Context, records []inbox.Record) error {
		if records[0].Source.Partition == 0 {
			entered <- struct{}{}
			<-release
		}
		return nil
	}
	cfg := b.config(topic)
	c := b.start(cfg, sink)
	c.awaitMember(2)
	b.produce(topic, 0, 5, "v")
	<-entered
	for i := range int64(5) { // five commits go by
		b.produce(topic, 1, 1, "v")
		b.awaitCommit(topic, 1, i+1)
		if got, _ := b.committed(topic, 0); got > 0 {
			b.Fatalf("offset %d was committed while Ingest was still running", got)
		}
	}
	close(release)
	b.awaitCommit(topic, 0, 5)
	sink.verify(b)
}

func testCleanStop(b *bench) {
	topic := b.topic("t", 2)
	sink := newMemory()
	running, release := make(chan struct{}), make(chan struct{})
	sink.before = func(context.Context, []inbox.Record) error {
		close(running)
		<-release
		return nil
	}
	cfg := b.config(topic)
	cfg.CommitInterval = time.Hour // only the stop commits after the first time
	cfg.Workers = 1
	c := b.start(cfg, sink)
	c.awaitMember(2)
	b.awaitCommit(topic, 0, 0) // that was the first time
	b.produce(topic, 0, 1, "v")
	<-running
	b.produce(topic, 0, 5, "not stored any more")
	c.cancel()
	select {
	case <-c.ended:
		b.Fatal("the stop did not wait for the call that runs")
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	c.stop()
	if got, _ := b.committed(topic, 0); got != 1 || sink.total() != 1 {
		b.Errorf("offset %d is committed and %d records are stored", got, sink.total())
	}
	b.start(b.config(topic), newMemory()).awaitMember(2) // at once: the first has left the group
}

func testStopCutsShort(b *bench) {
	topic := b.topic("t", 1)
	sink := newMemory()
	running := make(chan struct{})
	sink.before = func(ctx context.Context, _ []inbox.Record) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	}
	cfg := b.config(topic)
	cfg.StopTimeout = 20 * time.Millisecond
	c := b.start(cfg, sink)
	b.produce(topic, 0, 1, "v")
	<-running
	c.cancel()
	<-c.ended
	if !errors.Is(c.err, kafka.ErrCutShort) {
		b.Errorf("Run ended with %v", c.err)
	}
	if got, _ := b.committed(topic, 0); got > 0 {
		b.Errorf("offset %d is committed", got)
	}
}
