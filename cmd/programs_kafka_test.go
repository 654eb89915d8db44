package cmd_test

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shorten deletes the records of a partition before an offset, both in args.
func shorten(file, topic string, args []string) error {
	partition, err := strconv.ParseInt(args[0], 10, 32)
	if err != nil {
		return err
	}
	offset, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	address, err := awaitFile(file)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	req := kmsg.NewPtrDeleteRecordsRequest()
	rt, rp := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = int32(partition), offset
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(context.Background(), client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// forget makes the broker forget a group and its offsets, as it does by itself with
// one that was away for long.
func forget(file, group string) error {
	address, err := awaitFile(file)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer client.Close()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(context.Background(), client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Groups[0].ErrorCode)
}
