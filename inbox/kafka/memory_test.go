package kafka_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

// bound is what a source may hold.
const bound = 4 << 20

// held is what a source holds by its own account, over all partitions.
func (c *consumer) held() (bytes int) {
	for _, p := range c.Stats().Partitions {
		bytes += p.BufferedBytes
	}
	return bytes
}

// blocked has a sink store nothing until release is closed. The first call is told
// to entered.
func blocked(sink *memory) (entered, release chan struct{}) {
	entered, release = make(chan struct{}), make(chan struct{})
	var once sync.Once
	sink.before = func(ctx context.Context, _ []inbox.Record) error {
		once.Do(func() { close(entered) })
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return entered, release
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Many records wait in six partitions, and nothing can be stored: what is held
// stays within the bound, by the source's own account and by the heap. Then all
// partitions go on, none far behind another. It does not run beside others, whose
// memory would count.
func TestMemoryIsBounded(t *testing.T) {
	const partitions, n, size = 6, 6000, 1000
	_, w := fake(t, broker.Config{Topics: map[string]int32{"t": partitions}})
	b := newBench(t, w)
	for p := range int32(partitions) {
		for range n / 20 { // a producer's usual batch
			b.produceNoise("t", p, 20, size)
		}
	}
	b.producer.Close()
	before := heap()

	sink := &slowSink{memory: newMemory(), n: n, behind: -1}
	_, release := blocked(sink.memory)
	cfg := b.config("t")
	cfg.BufferBytes, cfg.BatchRecords, cfg.Workers = bound, 100, 2
	c := b.start(cfg, sink)
	sink.held.Store(c)
	most := 0
	b.eventually("all partitions are paused", func() bool {
		most = max(most, c.held())
		return kafka.Paused(c.Source) == partitions
	})
	grew := heap() - before
	for range 100 { // what was on its way has come
		most = max(most, c.held())
		runtime.Gosched()
	}
	if most > bound || most < bound/4 {
		t.Errorf("%d bytes were held, with a bound of %d", most, bound)
	}
	if grew > 2*bound {
		t.Errorf("the heap grew by %d bytes, with a bound of %d", grew, bound)
	}
	t.Logf("at most %d bytes were held, the heap grew by %d", most, grew)

	close(release)
	for p := range int32(partitions) {
		sink.awaitCount(b, "t", p, n)
	}
	c.stop()
	sink.verifyOnce(b)
	if sink.behind > n/2 {
		t.Errorf("when the first partition was done, the last was %d of %d records behind", sink.behind, n)
	}
	t.Logf("when the first partition was done, the last was %d of %d records behind", sink.behind, n)
}

// slowSink stores the n records of each of six partitions more slowly than they
// are fetched.
type slowSink struct {
	*memory
	n    int
	held atomic.Pointer[consumer]

	behind int // records that were not stored of the last when the first was done
}

func (s *slowSink) Ingest(ctx context.Context, records []inbox.Record) error {
	for c := s.held.Load(); c != nil && c.held() < bound/8 && s.total() < 5*s.n && ctx.Err() == nil; {
		runtime.Gosched()
	}
	if err := s.memory.Ingest(ctx, records); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	least, most := s.n, 0
	for p := range int32(6) {
		k := len(s.stored[place{"t", p}])
		least, most = min(least, k), max(most, k)
	}
	if most == s.n && s.behind < 0 {
		s.behind = s.n - least
	}
	return nil
}

// A record that is larger than the whole bound passes, and what comes behind it.
func TestRecordLargerThanTheBound(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	b := newBench(t, w)
	topic := b.topic("t", 2)
	sink := newMemory()
	cfg := b.config(topic)
	cfg.BufferBytes = 1 << 20
	b.start(cfg, sink)
	for range 3 {
		b.produceNoise(topic, 0, 1, 5<<20)
		b.produceNoise(topic, 1, 100, 1000)
	}
	sink.awaitCount(b, topic, 0, 3)
	sink.awaitCount(b, topic, 1, 300)
	sink.verifyOnce(b)
}

// produceCompressed writes n records of a size that are next to nothing as they
// are sent, each in a batch of its own.
func (b *bench) produceCompressed(topic string, partitions int32, n, size int) {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.world.addrs...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(int32(size+1000)), kgo.ProducerLinger(0))
	b.check(err)
	defer client.Close()
	value := make([]byte, size)
	for range n {
		for p := range partitions {
			client.Produce(b.ctx, &kgo.Record{Topic: topic, Partition: p, Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
		}
	}
	b.check(client.Flush(b.ctx))
}

// mostHeld waits until nothing more is fetched, since nothing can be stored, and
// says how much was held at most. Then it lets everything be stored, n records of
// each partition.
func (b *bench) mostHeld(topic string, partitions int32, n int) (most int) {
	b.Helper()
	sink := newMemory()
	entered, release := blocked(sink)
	cfg := b.config(topic)
	cfg.BufferBytes, cfg.Workers = bound, 1
	c := b.start(cfg, sink)
	<-entered
	b.eventually("fetching is stopped", func() bool {
		most = max(most, c.held())
		return kafka.Paused(c.Source) == int(partitions)
	})
	for range 100 { // what was on its way has come
		most = max(most, c.held())
		runtime.Gosched()
	}
	close(release)
	for p := range partitions {
		sink.awaitCount(b, topic, p, n)
	}
	c.stop()
	sink.verifyOnce(b)
	return most
}

// What is fetched is counted as it will be once it is unpacked: here a fetch of the
// usual size would bring a hundred times the bound.
func testCompressed(b *bench) {
	const partitions, n, size = 3, 60, 500_000
	topic := b.topic("t", partitions)
	b.produceCompressed(topic, partitions, n, size)
	most := b.mostHeld(topic, partitions, n)
	b.Logf("at most %d bytes were held", most)
	if most > 2*bound {
		b.Errorf("%d bytes were held, with a bound of %d", most, bound)
	}
}

// Fetches begin with one batch and become as large as they may be.
func TestFetchesGrow(t *testing.T) {
	t.Parallel()
	f, w := fake(t, broker.Config{Topics: map[string]int32{"t": 1}})
	b := newBench(t, w)
	for range 100 {
		b.produceNoise("t", 0, 10, 1000)
	}
	var mu sync.Mutex
	var asked []int32
	f.Cluster().ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.(*kmsg.FetchRequest).Topics[0].Partitions[0].PartitionMaxBytes)
		return nil, nil, false
	})
	sink := newMemory()
	cfg := b.config("t")
	cfg.BufferBytes = bound
	b.start(cfg, sink)
	sink.awaitCount(b, "t", 0, 1000)
	mu.Lock()
	defer mu.Unlock()
	const most = 64 << 10 / 4 // of a partition, with this bound
	if asked[0] != 1 || slices.Max(asked) != most {
		t.Errorf("bytes that were asked for, of at most %d: %v", most, asked)
	}
}

// What a partition brings counts for the broker that leads it now.
func TestMeterFollowsTheLeader(t *testing.T) {
	t.Parallel()
	three, w := fake(t, broker.Config{Ports: []int{0, 0, 0}, Topics: map[string]int32{"t": 1}})
	b := newBench(t, w)
	c := b.start(b.config("t"), newMemory())
	c.awaitMember(1)
	for node, addr := range three.Addrs() {
		b.check(three.Cluster().MoveTopicPartition("t", 0, int32(node)))
		b.eventually("the partition is counted by its leader", func() bool { return kafka.Metered(c.Source, addr, "t", 0) })
	}
}

// Partitions that hold nothing are fetched also when the buffer is full, but not
// if they are so many that a record of each is more than the bound.
func testManyLarge(b *bench) {
	const partitions, n, size = 24, 2, 900_000
	topic := b.topic("t", partitions)
	for p := range int32(partitions) {
		b.produceNoise(topic, p, n, size)
	}
	most := b.mostHeld(topic, partitions, n)
	b.Logf("at most %d bytes were held", most)
	if most > 2*bound {
		b.Errorf("%d bytes were held, with a bound of %d", most, bound)
	}
}
