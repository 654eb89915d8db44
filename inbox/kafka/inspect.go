package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"
)

// Inspection is what a look at a cluster found out about the topics and the group
// of a Config.
type Inspection struct {
	// Brokers is how many brokers the cluster says that it has.
	Brokers int
	// Topics are those that are read, by name.
	Topics []TopicInspection
	// Missing are topics that cannot be read, with the reason.
	Missing map[string]string
	// GroupState is the group's state in Kafka's words: Stable, Empty and so on.
	GroupState string
	// Members is how many members the group has.
	Members int
	// GroupError is why nothing is known of the group and its offsets; nil: it is.
	GroupError error
}

// TopicInspection is what is known of a topic.
type TopicInspection struct {
	Name       string
	Partitions int
	// Leaderless partitions can be neither read nor written.
	Leaderless int
	// Unread partitions have no offset of the group: it begins at Config.Start.
	Unread int
	// Stopped partitions have an offset that is not in the log, and wait for a
	// person.
	Stopped []int32
	// Lag is how many offsets there are from the group's to the ends, over all
	// partitions that have one.
	Lag int64
}

// Inspect asks a cluster about the topics and the group of cfg, without joining
// the group. Its error says why no broker told of topics. When ctx is done it
// gives up.
func Inspect(ctx context.Context, cfg Config) (*Inspection, error) {
	s, err := New(cfg, nil)
	if err != nil {
		return nil, err
	}
	defer s.dialer.cut()
	stop := context.AfterFunc(ctx, s.dialer.cut)
	defer stop()
	password, err := s.plainPassword()
	if err != nil {
		return nil, err
	}
	client, err := sarama.NewClient(s.cfg.Brokers, s.controlConfig(password))
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	defer func() { _ = client.Close() }() // it was asked all there was
	found, err := s.inspect(&control{client: client, group: s.cfg.Group, instance: s.cfg.InstanceID, brokers: s.cfg.Brokers})
	if err != nil && ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return found, err
}

func (s *Source) inspect(c *control) (*Inspection, error) {
	infos, refused, err := s.topics.ask(c)
	if err != nil {
		return nil, err
	}
	// A partition without a leader makes this fail; what it learned it keeps.
	_ = c.client.RefreshMetadata(slices.Sorted(maps.Keys(infos))...)
	found := &Inspection{Brokers: len(c.client.Brokers()), Missing: map[string]string{}}
	for name, why := range refused {
		found.Missing[name] = why.Error()
	}
	for name, info := range infos {
		found.Topics = append(found.Topics, TopicInspection{Name: name, Partitions: int(info.partitions)})
	}
	slices.SortFunc(found.Topics, func(a, b TopicInspection) int { return cmp.Compare(a.Name, b.Name) })
	if found.GroupState, found.Members, err = c.describeGroup(); err != nil {
		found.GroupError = err
		return found, nil //nolint:nilerr // it is in the answer
	}
	found.GroupError = c.measureTopics(found.Topics, infos)
	return found, nil
}

// describeGroup asks for the group's state and how many members it has.
func (c *control) describeGroup() (state string, members int, err error) {
	coordinator, err := c.client.Coordinator(c.group)
	if err != nil {
		return "", 0, fmt.Errorf("find the coordinator of group %q: %w", c.group, err)
	}
	resp, err := coordinator.DescribeGroups(&sarama.DescribeGroupsRequest{Groups: []string{c.group}})
	if err != nil {
		return "", 0, c.lost(coordinator, fmt.Errorf("ask about group %q: %w", c.group, err))
	}
	for _, g := range resp.Groups {
		if g.GroupId == c.group {
			return g.State, len(g.Members), kafkaError(g.Err)
		}
	}
	return "", 0, fmt.Errorf("ask about group %q: %w", c.group, sarama.ErrIncompleteResponse)
}

// measureTopics compares the group's offsets with the logs.
func (c *control) measureTopics(found []TopicInspection, infos map[string]topicInfo) error {
	var ids []partitionID
	for name, info := range infos {
		for p := range info.partitions {
			ids = append(ids, partitionID{name, p})
		}
	}
	had, err := c.committed(infos)
	if err != nil && !errors.Is(err, sarama.ErrGroupIDNotFound) { // it never committed
		return err
	}
	begins, err := c.offsets(ids, sarama.OffsetOldest, sarama.ReadCommitted)
	if err != nil {
		return err
	}
	ends, err := c.offsets(ids, sarama.OffsetNewest, sarama.ReadCommitted)
	if err != nil {
		return err
	}
	for i := range found {
		t := &found[i]
		for p := range infos[t.Name].partitions {
			id := partitionID{t.Name, p}
			end, led := ends[id]
			at, read := had[id]
			switch {
			case !led:
				t.Leaderless++
			case !read || at.mark.ofAnother(infos[t.Name].id):
				t.Unread++
			case at.mark.stopped || at.offset < begins[id]:
				t.Stopped = append(t.Stopped, p)
			default:
				t.Lag += max(0, end-at.offset)
			}
		}
	}
	return nil
}
