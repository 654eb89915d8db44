package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/inboxd/inboxd/inbox"
)

// tally is a Sink that counts, for more records than are to be held in memory.
type tally struct {
	mu    sync.Mutex
	next  map[place]int64
	wrong string // the first record that was not the next one
	n     atomic.Int64
	want  int64
	all   chan struct{}
}

func (s *tally) Ingest(_ context.Context, records []inbox.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		p := placeOf(r)
		if r.Source.Offset != s.next[p] && s.wrong == "" {
			s.wrong = fmt.Sprintf("%v: offset %d came instead of %d", p, r.Source.Offset, s.next[p])
		}
		s.next[p] = r.Source.Offset + 1
	}
	if s.n.Add(int64(len(records))) >= s.want && s.all != nil {
		close(s.all)
		s.all = nil
	}
	return nil
}

// await waits until all is closed, for as long as there is progress.
func (s *tally) await(b *bench, all <-chan struct{}) {
	b.Helper()
	for before := int64(-1); ; {
		select {
		case <-all:
			return
		case <-time.After(patience):
		}
		now := s.n.Load()
		if now == before {
			b.Fatalf("%d records were stored, and none for %v; the log:\n%s", now, patience, b.log)
		}
		before = now
	}
}

// Many records wait in six partitions when the group comes for the first time.
func testMany(b *bench) {
	const partitions = 6
	topic := b.topic("t", partitions)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.world.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(5*time.Millisecond))
	b.check(err)
	defer client.Close()
	var failed atomic.Int64
	for i := range b.world.many {
		client.Produce(b.ctx, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%0100d", i)},
			func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Add(1)
				}
			})
	}
	b.check(client.Flush(b.ctx))
	if failed.Load() > 0 {
		b.Fatalf("%d records could not be written", failed.Load())
	}
	all := make(chan struct{})
	sink := &tally{next: map[place]int64{}, want: int64(b.world.many), all: all}
	began := time.Now()
	c := b.start(b.config(topic), sink)
	sink.await(b, all)
	b.Logf("%d records were read in %v", sink.n.Load(), time.Since(began))
	b.awaitAllCommitted(topic, partitions)
	c.stop()
	if sink.wrong != "" {
		b.Error(sink.wrong)
	}
	if sink.n.Load() != sink.want {
		b.Errorf("%d records were stored instead of %d", sink.n.Load(), sink.want)
	}
}

// A topic holds batches of every codec, as producers of several kinds write them.
func testCodecs(b *bench) {
	topic := b.topic("t", 1)
	sink := newMemory()
	text := bytes.Repeat([]byte("inboxd "), 300)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(),
		kgo.Lz4Compression(), kgo.ZstdCompression()}
	for _, codec := range codecs {
		client, err := kgo.NewClient(kgo.SeedBrokers(b.world.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(codec), kgo.DefaultProduceTopic(topic))
		b.check(err)
		for i := range 100 {
			client.Produce(b.ctx, &kgo.Record{Key: fmt.Append(nil, i), Value: text}, nil)
		}
		b.check(client.Flush(b.ctx))
		client.Close()
	}
	b.start(b.config(topic), sink)
	b.verifyLog(sink, topic, 1)
	sink.verifyOnce(b)
	used := map[uint8]int{}
	for _, r := range b.readLog(topic, 1)[0] {
		used[r.Attrs.CompressionType()]++
		if !bytes.Equal(r.Value, text) {
			b.Fatalf("the record at %d has changed", r.Offset)
		}
	}
	for codec := range uint8(len(codecs)) {
		if used[codec] != 100 {
			b.Errorf("the log has %d records of codec %d", used[codec], codec)
		}
	}
}
