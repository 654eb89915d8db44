package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

// world is a cluster that the suite runs on, and what can be done to it.
type world struct {
	addrs []string
	// freeze stops the cluster as SIGSTOP does; thaw lets it go on.
	freeze, thaw func()
}

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

var unique atomic.Int64

// bench is one test's place in a world: a group and topics of its own.
type bench struct {
	*testing.T
	world    world
	ctx      context.Context
	admin    *kgo.Client
	producer *broker.Producer
	group    string
	log      *logBook
}

func newBench(t *testing.T, w world) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	versions := kversion.Stable() // with names instead of topic ids, which a topic that is made again changes
	versions.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 9)
	versions.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 9)
	admin, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.MetadataMinAge(10*time.Millisecond), kgo.MaxVersions(versions))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	name := strings.NewReplacer("/", ".", " ", "_").Replace(t.Name())
	b := &bench{
		T: t, world: w, ctx: ctx, admin: admin, log: &logBook{},
		group: fmt.Sprintf("%s.%d.%d", name, time.Now().UnixNano(), unique.Add(1)),
	}
	b.newProducer()
	return b
}

// topic makes a topic of the test's own.
func (b *bench) topic(name string, partitions int32) string {
	b.Helper()
	topic := b.group + "." + name
	b.create(topic, partitions)
	return topic
}

func (b *bench) create(topic string, partitions int32) {
	b.Helper()
	b.createReplicated(topic, partitions, 1)
}

func (b *bench) createReplicated(topic string, partitions int32, replicas int16) {
	b.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, partitions, replicas
	limit := kmsg.NewCreateTopicsRequestTopicConfig()
	limit.Name, limit.Value = "max.message.bytes", kmsg.StringPtr("20000000")
	rt.Configs = append(rt.Configs, limit)
	req.Topics = append(req.Topics, rt)
	b.eventually("topic "+topic+" is made", func() bool {
		resp, err := req.RequestWith(b.ctx, b.admin)
		b.check(err)
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		return err == nil // an older topic of the name may still be going
	})
	b.eventually("topic "+topic+" has leaders", func() bool { return b.leaders(topic) == int(partitions) })
	b.newProducer()
}

// leaders counts the partitions of a topic that have a leader.
func (b *bench) leaders(topic string) (n int) {
	req := kmsg.NewPtrMetadataRequest()
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.ctx, b.admin)
	b.check(err)
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode == 0 && p.Leader >= 0 {
			n++
		}
	}
	return n
}

func (b *bench) deleteTopic(topic string) {
	b.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req.Topics, req.TopicNames = append(req.Topics, rt), []string{topic}
	resp, err := req.RequestWith(b.ctx, b.admin)
	b.check(err)
	b.check(kerr.ErrorForCode(resp.Topics[0].ErrorCode))
}

func (b *bench) addPartitions(topic string, count int32) {
	b.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, count
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.ctx, b.admin)
	b.check(err)
	b.check(kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	b.eventually("partitions are added", func() bool { return b.leaders(topic) == int(count) })
	b.newProducer()
}

// deleteRecords deletes the records of a partition before an offset.
func (b *bench) deleteRecords(topic string, partition int32, before int64) {
	b.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, before
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.ctx, b.admin)
	b.check(err)
	b.check(kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
}

// committed is the group's offset of a partition, -1 if there is none.
func (b *bench) committed(topic string, partition int32) (offset int64, metadata string) {
	b.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = b.group
	rt := kmsg.NewOffsetFetchRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	req.Topics = append(req.Topics, rt)
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group = b.group
	rgt := kmsg.NewOffsetFetchRequestGroupTopic()
	rgt.Topic, rgt.Partitions = topic, []int32{partition}
	rg.Topics = append(rg.Topics, rgt)
	req.Groups = append(req.Groups, rg)
	resp, err := req.RequestWith(b.ctx, b.admin)
	b.check(err)
	if len(resp.Groups) > 0 {
		if resp.Groups[0].ErrorCode == kerr.GroupIDNotFound.Code {
			return -1, ""
		}
		b.check(kerr.ErrorForCode(resp.Groups[0].ErrorCode))
		p := resp.Groups[0].Topics[0].Partitions[0]
		if p.Metadata != nil {
			metadata = *p.Metadata
		}
		return p.Offset, metadata
	}
	return resp.Topics[0].Partitions[0].Offset, ""
}

// commit sets an offset as a tool does, while no member is there.
func (b *bench) commit(topic string, partition int32, offset int64) {
	b.Helper()
	b.commitMarked(topic, partition, offset, "")
}

func (b *bench) commitMarked(topic string, partition int32, offset int64, metadata string) {
	b.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = b.group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = partition, offset, -1, &metadata
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(b.ctx, b.admin)
	b.check(err)
	b.check(kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
}

func (b *bench) awaitCommit(topic string, partition int32, want int64) {
	b.Helper()
	b.eventually(fmt.Sprintf("%s/%d is committed up to %d", topic, partition, want), func() bool {
		got, _ := b.committed(topic, partition)
		return got == want
	})
}

// produce writes n records, numbered on from those that are there, to a partition.
func (b *bench) produce(topic string, partition int32, n int, value string) []*inbox.Record {
	b.Helper()
	records := make([]*inbox.Record, n)
	for i := range records {
		records[i] = &inbox.Record{
			Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "%s-%d", value, i),
			Source: inbox.Source{Topic: topic, Partition: partition},
		}
	}
	b.check(b.producer.Produce(b.ctx, records...))
	return records
}

// produceNoise writes n records of a size that no codec makes much smaller.
func (b *bench) produceNoise(topic string, partition int32, n, size int) {
	b.Helper()
	records := make([]*inbox.Record, n)
	random := rand.NewChaCha8([32]byte{byte(partition)})
	for i := range records {
		value := make([]byte, size)
		_, _ = random.Read(value)
		records[i] = &inbox.Record{Value: value, Source: inbox.Source{Topic: topic, Partition: partition}}
	}
	b.check(b.producer.Produce(b.ctx, records...))
}

// newProducer forgets what the old one knew of topics.
func (b *bench) newProducer() {
	b.Helper()
	producer, err := broker.NewProducer(b.world.addrs...)
	b.check(err)
	b.Cleanup(producer.Close)
	b.producer = producer
}

func (b *bench) check(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// eventually waits for something outside this process, which sends no signal.
func (b *bench) eventually(what string, is func() bool) {
	b.Helper()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-deadline:
			b.Fatalf("in vain waited until %s; the log:\n%s", what, b.log)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// consumer is a running source.
type consumer struct {
	*kafka.Source
	bench  *bench
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // after ended
}

// config is for tests: everything that is waited for is short.
func (b *bench) config(topics ...string) kafka.Config {
	return kafka.Config{
		Brokers: b.world.addrs, Group: b.group, Topics: topics,
		CommitInterval: 10 * time.Millisecond, TopicRefresh: 200 * time.Millisecond,
		SessionTimeout: 1500 * time.Millisecond, Heartbeat: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// start runs a source until the test ends or it is stopped.
func (b *bench) start(cfg kafka.Config, sink kafka.Sink) *consumer {
	b.Helper()
	source, err := kafka.New(cfg, sink)
	b.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	c := &consumer{Source: source, bench: b, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		c.err = source.Run(ctx)
	}()
	b.Cleanup(func() { c.cancel(); <-c.ended })
	return c
}

// stop stops cleanly.
func (c *consumer) stop() {
	c.bench.Helper()
	c.cancel()
	<-c.ended
	if c.err != nil {
		c.bench.Fatalf("Run ended with %v; the log:\n%s", c.err, c.bench.log)
	}
}

// crash stops as SIGKILL would.
func (c *consumer) crash() {
	c.Crash()
	c.cancel()
	<-c.ended
}

// partition is what the source says of a partition, if it has it.
func (c *consumer) partition(topic string, partition int32) (kafka.PartitionStats, bool) {
	for _, p := range c.Stats().Partitions {
		if p.Topic == topic && p.Partition == partition {
			return p, true
		}
	}
	return kafka.PartitionStats{}, false
}

// awaitMember waits until the source has so many partitions.
func (c *consumer) awaitMember(partitions int) {
	c.bench.Helper()
	c.bench.eventually(fmt.Sprintf("the member has %d partitions", partitions), func() bool {
		st := c.Stats()
		return st.Member != "" && len(st.Partitions) == partitions
	})
}

// logBook collects the log of a test.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
