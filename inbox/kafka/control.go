package kafka

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"
)

// partitionID names a partition.
type partitionID struct {
	topic     string
	partition int32
}

func (id partitionID) String() string { return fmt.Sprintf("%s/%d", id.topic, id.partition) }

// topicInfo is what the broker says about a topic. A topic that is deleted and
// made again has another id.
type topicInfo struct {
	id         sarama.Uuid
	partitions int32
}

// committed is an offset that the group has committed.
type committed struct {
	offset     int64
	mark       mark
	remembered bool // elsewhere: the group has none
}

// control asks and tells the cluster everything but fetches, over connections
// of its own: on those of the group a request waits behind the long poll of a
// fetch. Its methods block until the broker answers, at most controlReadTimeout
// for each request, or until the dialer cuts them off.
type control struct {
	client   sarama.Client
	group    string
	instance string // of a static member; empty: none
	brokers  []string
}

// topics describes topics, all of them for nil, and says why not for those that it
// cannot describe.
func (c *control) topics(names []string) (found map[string]topicInfo, refused map[string]error, err error) {
	broker := c.client.LeastLoadedBroker()
	if broker == nil {
		return nil, nil, errors.Join(sarama.ErrOutOfBrokers, c.client.RefreshBrokers(c.brokers))
	}
	req := sarama.NewMetadataRequest(c.client.Config().Version, names)
	resp, err := broker.GetMetadata(req)
	if err != nil {
		_ = broker.Close()
		// The client does not know that this broker failed. Begin again with
		// all that the configuration names, in another order.
		return nil, nil, errors.Join(fmt.Errorf("ask %s about topics: %w", broker.Addr(), err), c.client.RefreshBrokers(c.brokers))
	}
	found, refused = make(map[string]topicInfo, len(resp.Topics)), map[string]error{}
	for _, t := range resp.Topics {
		switch t.Err {
		case sarama.ErrNoError, sarama.ErrLeaderNotAvailable:
			found[t.Name] = topicInfo{id: t.Uuid, partitions: int32(len(t.Partitions))}
		default:
			refused[t.Name] = t.Err
		}
	}
	return found, refused, nil
}

// offsets asks the leaders for one offset of each partition: the first whose
// record is at or after a time in milliseconds, sarama.OffsetOldest or
// sarama.OffsetNewest. It is -1 where there is none. Partitions that have no
// leader are left out.
func (c *control) offsets(ids []partitionID, at int64, isolation sarama.IsolationLevel) (map[partitionID]int64, error) {
	byLeader := map[*sarama.Broker]*sarama.OffsetRequest{}
	for _, id := range ids {
		leader, err := c.client.Leader(id.topic, id.partition)
		if errors.Is(err, sarama.ErrLeaderNotAvailable) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find the leader of %v: %w", id, err)
		}
		if byLeader[leader] == nil {
			byLeader[leader] = sarama.NewOffsetRequest(c.client.Config().Version)
			byLeader[leader].IsolationLevel = isolation
		}
		byLeader[leader].AddBlock(id.topic, id.partition, at, 1)
	}
	answers := make(map[partitionID]int64, len(ids))
	for leader, req := range byLeader {
		resp, err := leader.GetAvailableOffsets(req)
		if err != nil {
			_ = leader.Close()
			return nil, errors.Join(fmt.Errorf("ask %s for offsets: %w", leader.Addr(), err), c.refresh(ids))
		}
		for topic, blocks := range resp.Blocks {
			for partition, b := range blocks {
				if b.Err != sarama.ErrNoError {
					return nil, errors.Join(fmt.Errorf("ask for the offset of %s/%d: %w", topic, partition, b.Err), c.refresh(ids))
				}
				answers[partitionID{topic, partition}] = b.Offset
			}
		}
	}
	return answers, nil
}

// refresh makes the client ask where the leaders are.
func (c *control) refresh(ids []partitionID) error {
	topics := map[string]bool{}
	for _, id := range ids {
		topics[id.topic] = true
	}
	return c.client.RefreshMetadata(slices.Sorted(maps.Keys(topics))...)
}

// committed asks for the group's offsets of all partitions of the topics.
// Partitions without one are left out.
func (c *control) committed(topics map[string]topicInfo) (map[partitionID]committed, error) {
	ask := make(map[string][]int32, len(topics))
	for name, info := range topics {
		for p := range info.partitions {
			ask[name] = append(ask[name], p)
		}
	}
	req := sarama.NewOffsetFetchRequest(c.client.Config().Version, c.group, ask)
	req.RequireStable = req.Version >= 7
	coordinator, err := c.client.Coordinator(c.group)
	if err != nil {
		return nil, fmt.Errorf("find the coordinator of group %q: %w", c.group, err)
	}
	resp, err := coordinator.FetchOffset(req)
	if err != nil {
		return nil, c.lost(coordinator, fmt.Errorf("ask for the offsets of group %q: %w", c.group, err))
	}
	found := map[partitionID]committed{}
	for name, partitions := range ask {
		for _, p := range partitions {
			id := partitionID{name, p}
			block, err := offsetBlock(resp, id)
			if errors.Is(err, sarama.ErrGroupIDNotFound) {
				return nil, nil // some brokers tell a group that is not there from one without offsets
			}
			if err != nil {
				return nil, c.lost(nil, fmt.Errorf("ask for the offset of %v in group %q: %w", id, c.group, err))
			}
			if block.Offset >= 0 {
				found[id] = committed{offset: block.Offset, mark: parseMark(block.Metadata)}
			}
		}
	}
	return found, nil
}

// offsetBlock is the answer for one partition, or why there is none.
func offsetBlock(resp *sarama.OffsetFetchResponse, id partitionID) (*sarama.OffsetFetchResponseBlock, error) {
	block := resp.GetBlock(id.topic, id.partition)
	switch {
	case block != nil:
		return block, kafkaError(block.Err)
	case len(resp.Groups) > 0 && resp.Groups[0].Err != sarama.ErrNoError:
		return nil, resp.Groups[0].Err
	case resp.Err != sarama.ErrNoError:
		return nil, resp.Err
	default:
		return nil, sarama.ErrIncompleteResponse
	}
}

// kafkaError is the code as an error; nil for none.
func kafkaError(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return code
}

// member is what the group knows a consumer by.
type member struct {
	id         string
	generation int32
}

// commit commits offsets as that member. The answer says for each partition
// what the broker objects, or nil.
func (c *control) commit(m member, offsets map[partitionID]committed) (map[partitionID]error, error) {
	coordinator, err := c.client.Coordinator(c.group)
	if err != nil {
		return nil, fmt.Errorf("find the coordinator of group %q: %w", c.group, err)
	}
	req := sarama.NewOffsetCommitRequest(c.client.Config(), c.group)
	req.ConsumerID, req.ConsumerGroupGeneration = m.id, m.generation
	if c.instance != "" {
		req.GroupInstanceId = &c.instance
	}
	for id, o := range offsets {
		// No leader epoch: the one that this client knows is of the session's
		// start, and an old one reads like lost data after a leader has moved.
		req.AddBlockWithLeaderEpoch(id.topic, id.partition, o.offset, -1, 0, o.mark.String())
	}
	resp, err := coordinator.CommitOffset(req)
	if err != nil {
		return nil, c.lost(coordinator, fmt.Errorf("commit offsets of group %q: %w", c.group, err))
	}
	answers := make(map[partitionID]error, len(offsets))
	moved := false
	for id := range offsets {
		code, answered := resp.Errors[id.topic][id.partition]
		answers[id] = kafkaError(code)
		if !answered {
			answers[id] = sarama.ErrIncompleteResponse
		}
		moved = moved || code == sarama.ErrNotCoordinatorForConsumer || code == sarama.ErrConsumerCoordinatorNotAvailable
	}
	if moved {
		_ = c.lost(nil, nil) // the next commit shows whether that helped
	}
	return answers, nil
}

// lost makes the client search the coordinator again, and returns err.
func (c *control) lost(coordinator *sarama.Broker, err error) error {
	if coordinator != nil {
		_ = coordinator.Close()
	}
	return errors.Join(err, c.client.RefreshCoordinator(c.group))
}
