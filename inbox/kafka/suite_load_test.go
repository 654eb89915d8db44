package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// load writes to all partitions of a topic, whatever happens to the broker.
type load struct {
	bench   *bench
	topic   string
	client  *kgo.Client
	stop    chan struct{}
	ended   chan struct{}
	written atomic.Int64 // records that the broker has taken
	lost    atomic.Int64 // records that it may or may not have
}

// load begins one. It writes about a thousand records a second until end.
func (b *bench) load(topic string, partitions int32) *load {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.world.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.MetadataMinAge(100*time.Millisecond), kgo.UnknownTopicRetries(-1),
		kgo.ProduceRequestTimeout(2*time.Second), kgo.RequestTimeoutOverhead(2*time.Second)) // a hanging broker is soon left
	b.check(err)
	l := &load{bench: b, topic: topic, client: client, stop: make(chan struct{}), ended: make(chan struct{})}
	go l.write(partitions)
	b.Cleanup(func() { l.end(); client.Close() })
	return l
}

func (l *load) write(partitions int32) {
	defer close(l.ended)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		for p := range partitions {
			l.client.Produce(l.bench.ctx, &kgo.Record{Topic: l.topic, Partition: p, Value: fmt.Appendf(nil, "%d-%d", p, n)},
				func(_ *kgo.Record, err error) {
					if err != nil {
						l.lost.Add(1)
						return
					}
					l.written.Add(1)
				})
		}
	}
}

// end stops it and waits until the broker has taken, or refused, all of it. It
// may be called again.
func (l *load) end() {
	l.bench.Helper()
	select {
	case <-l.ended:
		return
	default:
		close(l.stop)
	}
	<-l.ended
	if err := l.client.Flush(l.bench.ctx); err != nil {
		l.bench.Errorf("flush the load: %v", err)
	}
}

// awaitMore waits until n more of its records are stored.
func (l *load) awaitMore(sink *memory, n int) {
	l.bench.Helper()
	n += sink.total()
	sink.await(l.bench, fmt.Sprintf("%d records are stored", n), func() bool { return sink.total() >= n })
}

// verify ends the load and waits until every committed record of the topic is
// stored. The sink must have each of them once, in the order of its partition.
func (l *load) verify(sink *memory, partitions int32) {
	b := l.bench
	b.Helper()
	l.end()
	b.newProducer()
	n := b.verifyLog(sink, l.topic, partitions)
	b.Logf("%d records were written, %d are in the log and were stored, %d of them came more than once", l.written.Load(), n, sink.twice)
	if n == 0 || int64(n) < l.written.Load() {
		b.Errorf("the broker lost some of %d records and has %d", l.written.Load(), n)
	}
}

// verifyLog compares what a sink has of a topic with what another client reads
// there, aborted transactions left out. It returns how many records there are.
func (b *bench) verifyLog(sink *memory, topic string, partitions int32) (n int) {
	b.Helper()
	log := b.readLog(topic, partitions)
	for p := range partitions {
		want := log[p]
		n += len(want)
		sink.awaitCount(b, topic, p, len(want))
		got := sink.of(topic, p)
		for i := range min(len(got), len(want)) {
			if got[i].Source.Offset != want[i].Offset || string(got[i].Value) != string(want[i].Value) {
				b.Fatalf("record %d of %s/%d is %q at %d, stored is %q at %d", i, topic, p,
					want[i].Value, want[i].Offset, got[i].Value, got[i].Source.Offset)
			}
		}
		if len(got) != len(want) {
			b.Errorf("%s/%d has %d records, %d are stored", topic, p, len(want), len(got))
		}
	}
	sink.verify(b)
	return n
}

// readLog reads a topic from its beginning to its last stable offsets.
func (b *bench) readLog(topic string, partitions int32) map[int32][]*kgo.Record {
	b.Helper()
	starts, ends := b.offsets(topic, partitions, -2), b.offsets(topic, partitions, -1)
	from, left := map[int32]kgo.Offset{}, 0
	for p := range partitions {
		from[p] = kgo.NewOffset().At(starts[p])
		if starts[p] < ends[p] {
			left++
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.world.addrs...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	b.check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	log := map[int32][]*kgo.Record{}
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			b.Fatalf("the log of %s could not be read", topic)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				log[r.Partition] = append(log[r.Partition], r)
			}
			if r.Offset == ends[r.Partition]-1 {
				left--
			}
		})
	}
	return log
}

// offsets asks for the oldest offsets of a topic (at -2) or for the last stable
// ones (-1).
func (b *bench) offsets(topic string, partitions int32, at int64) map[int32]int64 {
	b.Helper()
	var offsets map[int32]int64
	b.eventually("the offsets of "+topic+" are known", func() (known bool) {
		offsets, known = b.tryOffsets(topic, partitions, at)
		return known
	})
	return offsets
}

func (b *bench) tryOffsets(topic string, partitions int32, at int64) (map[int32]int64, bool) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, 1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	for p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, at
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	offsets := map[int32]int64{}
	for _, shard := range b.admin.RequestSharded(b.ctx, req) {
		if shard.Err != nil {
			if errors.Is(shard.Err, context.Canceled) {
				b.check(shard.Err)
			}
			return nil, false
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if kerr.ErrorForCode(p.ErrorCode) == nil {
					offsets[p.Partition] = p.Offset
				}
			}
		}
	}
	return offsets, len(offsets) == int(partitions)
}
