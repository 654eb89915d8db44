package kafka_test

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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
	// What asks too early for the next topic of that name is told of this one.
	b.eventually("the topic is gone", func() bool { return b.leaders(topic) == 0 })
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
	var resp *kmsg.OffsetFetchResponse
	b.eventually("the group has a coordinator", func() (ready bool) {
		var err error
		if resp, err = req.RequestWith(b.ctx, b.admin); uncoordinated(err) {
			return false
		}
		b.check(err)
		return len(resp.Groups) == 0 || !uncoordinated(kerr.ErrorForCode(resp.Groups[0].ErrorCode))
	})
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
	var err error
	b.eventually("the group has a coordinator", func() bool {
		var resp *kmsg.OffsetCommitResponse
		if resp, err = req.RequestWith(b.ctx, b.admin); err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
		}
		return !uncoordinated(err)
	})
	b.check(err)
}

// uncoordinated reports whether an answer says that a group has no coordinator yet,
// as at the start of a cluster.
func uncoordinated(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.NotCoordinator)
}

func (b *bench) awaitCommit(topic string, partition int32, want int64) {
	b.Helper()
	b.eventually(fmt.Sprintf("%s/%d is committed up to %d", topic, partition, want), func() bool {
		got, _ := b.committed(topic, partition)
		return got == want
	})
}
