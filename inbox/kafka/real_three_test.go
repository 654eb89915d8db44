//go:build kafka

package kafka_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRealOfThree(t *testing.T) {
	k, w := startReal(t, "--brokers", "3")
	w.move = (*bench).electOthers
	suiteOfThree(t, w)
	t.Run("without a leader", func(t *testing.T) { testLeaderless(newBench(t, w), k) })
	t.Run("one frozen", func(t *testing.T) { testOneFrozen(newBench(t, w), k) })
	t.Run("one killed", func(t *testing.T) { testOneKilled(newBench(t, w), k) })
}

// testOneKilled kills each broker in turn, while records are written to a topic
// of three replicas.
func testOneKilled(b *bench, k realKafka) {
	topic := b.group + ".t"
	b.createReplicated(topic, 6, 3)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	load := b.load(topic, 6)
	load.awaitMore(sink, 600)
	for _, node := range []string{"1", "2", "3"} {
		k.do("kill", node)
		load.awaitMore(sink, 600)
		k.do("restart", node)
		load.awaitMore(sink, 600)
	}
	load.verify(sink, 6)
	b.awaitAllCommitted(topic, 6)
	c.stop()
}

// testLeaderless kills a broker that leads partitions without other replicas:
// the others are read, also by a member that joins meanwhile.
func testLeaderless(b *bench, k realKafka) {
	topic := b.topic("t", 6)
	sink := newMemory()
	first := b.start(b.config(topic), sink)
	for p := range int32(6) {
		b.produce(topic, p, 5, "v")
		sink.awaitCount(b, topic, p, 5)
	}
	k.do("kill", "2")
	b.eventually("partitions have no leader", func() bool { return b.leaders(topic) == 4 })
	first.stop()
	second := b.start(b.config(topic), sink)
	second.awaitMember(4)
	for _, p := range second.Stats().Partitions {
		b.produce(topic, p.Partition, 5, "w")
		sink.awaitCount(b, topic, p.Partition, 10)
	}
	k.do("restart", "2")
	second.awaitMember(6)
	b.newProducer()
	for p := range int32(6) {
		b.produce(topic, p, 5, "x")
		sink.awaitCount(b, topic, p, 10)
	}
	sink.verify(b)
}

// testOneFrozen stops a broker, as a machine does that hangs: the one that
// coordinates the group, and then another. The leaders move, and the client has
// to find out by itself: everything is read while the broker hangs.
func testOneFrozen(b *bench, k realKafka) {
	topic := b.group + ".t"
	b.createReplicated(topic, 6, 3)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	load := b.load(topic, 6)
	load.awaitMoreOfAll(sink, 6, 100)
	coordinator := b.coordinator()
	for _, node := range []int32{coordinator, coordinator%3 + 1} {
		name := strconv.Itoa(int(node))
		k.do("pause", name)
		b.Cleanup(func() { k.do("resume", name) }) // if the test ends before it does
		began := time.Now()
		load.awaitMoreOfAll(sink, 6, 1000)
		b.Logf("broker %s hangs: a thousand more records of each partition were read after %v", name, time.Since(began))
		k.do("resume", name)
		load.awaitMoreOfAll(sink, 6, 100)
	}
	load.verify(sink, 6)
	b.awaitAllCommitted(topic, 6)
	c.stop()
}

// awaitMoreOfAll waits until n more of its records are stored in each partition.
func (l *load) awaitMoreOfAll(sink *memory, partitions int32, n int) {
	l.bench.Helper()
	var want []int
	for p := range partitions {
		want = append(want, sink.count(l.topic, p)+n)
	}
	for p := range partitions {
		sink.awaitCount(l.bench, l.topic, p, want[p])
	}
}

// coordinator is the broker that has the group.
func (b *bench) coordinator() int32 {
	b.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = b.group, []string{b.group}
	resp, err := req.RequestWith(b.ctx, b.admin)
	b.check(err)
	if len(resp.Coordinators) > 0 {
		return resp.Coordinators[0].NodeID
	}
	return resp.NodeID
}

// electOthers gives the partitions of a replicated topic other leaders, as an
// operator does: the next replica becomes the preferred one and is elected.
func (b *bench) electOthers(topic string) {
	b.Helper()
	meta := kmsg.NewPtrMetadataRequest()
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = kmsg.StringPtr(topic)
	meta.Topics = append(meta.Topics, mt)
	found, err := meta.RequestWith(b.ctx, b.admin)
	b.check(err)
	assign := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	at := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	at.Topic = topic
	elect := kmsg.NewPtrElectLeadersRequest()
	et := kmsg.NewElectLeadersRequestTopic()
	et.Topic = topic
	for _, p := range found.Topics[0].Partitions {
		ap := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		ap.Partition, ap.Replicas = p.Partition, append(p.Replicas[1:], p.Replicas[0])
		at.Partitions = append(at.Partitions, ap)
		et.Partitions = append(et.Partitions, p.Partition)
	}
	assign.Topics, elect.Topics = append(assign.Topics, at), append(elect.Topics, et)
	assigned, err := assign.RequestWith(b.ctx, b.admin)
	b.check(err)
	b.check(kerr.ErrorForCode(assigned.ErrorCode))
	b.eventually("other leaders are elected", func() bool {
		elected, err := elect.RequestWith(b.ctx, b.admin)
		b.check(err)
		done := kerr.ErrorForCode(elected.ErrorCode) == nil
		for _, t := range elected.Topics {
			for _, p := range t.Partitions {
				done = done && (p.ErrorCode == 0 || p.ErrorCode == kerr.ElectionNotNeeded.Code)
			}
		}
		return done
	})
}
