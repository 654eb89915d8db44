package dev

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// rewind sets the offsets of a group that has no member back by up to n records
// in each partition, as if they had been stored and the consumer had died before
// it could commit its offsets. It answers how many records will come again.
func rewind(brokers []string, group string, topics map[string]int32, n int64) (int64, error) {
	c := sarama.NewConfig()
	c.Version = sarama.V2_8_0_0
	c.ClientID = "inboxd-dev"
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Return.Errors = true
	client, err := sarama.NewClient(brokers, c)
	if err != nil {
		return 0, fmt.Errorf("reach the embedded broker: %w", err)
	}
	defer client.Close()
	offsets, err := sarama.NewOffsetManagerFromClient(group, client)
	if err != nil {
		return 0, fmt.Errorf("manage the offsets of group %s: %w", group, err)
	}
	managed, again, err := setBack(offsets, topics, n)
	offsets.Commit()
	err = errors.Join(err, offsets.Close()) // which also closes what it managed
	for _, p := range managed {
		for failed := range p.Errors() {
			err = errors.Join(err, fmt.Errorf("set the offsets back: %w", failed.Err))
		}
	}
	return again, err
}

func setBack(offsets sarama.OffsetManager, topics map[string]int32, n int64) (managed []sarama.PartitionOffsetManager, again int64, err error) {
	for topic, count := range topics {
		for partition := range count {
			p, err := offsets.ManagePartition(topic, partition)
			if err != nil {
				return managed, again, fmt.Errorf("read the offset of %s/%d: %w", topic, partition, err)
			}
			managed = append(managed, p)
			offset, metadata := p.NextOffset()
			if offset <= 0 {
				continue // nothing was read of it yet
			}
			back := min(n, offset)
			p.ResetOffset(offset-back, metadata)
			again += back
		}
	}
	return managed, again, nil
}
