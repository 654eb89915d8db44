package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// ErrHasMembers is returned by Group.Move when the group has a member that could
// write offsets of its own over those that are set.
var ErrHasMembers = errors.New("the group has members")

// Group looks at a consumer group from outside, without being a member, and can
// move its offsets. It is for one goroutine at a time.
type Group struct {
	source  *Source // never run: it has the configuration and the dialer
	control *control
}

// OpenGroup connects when it is first used. Of the configuration it uses what
// says where the cluster is, which topics and which group are meant, and who asks.
func OpenGroup(cfg Config) (*Group, error) {
	s, err := New(cfg, nil)
	if err != nil {
		return nil, err
	}
	password, err := s.plainPassword()
	if err != nil {
		return nil, err
	}
	client, err := sarama.NewClient(s.cfg.Brokers, s.controlConfig(password))
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	return &Group{s, &control{client: client, group: s.cfg.Group, brokers: s.cfg.Brokers}}, nil
}

// Close ends the connections.
func (g *Group) Close() {
	g.source.dialer.cut()
	_ = g.control.client.Close() // nothing is under way
}

// PartitionOffsets is what the cluster knows of a partition and of the group.
type PartitionOffsets struct {
	Topic     string
	Partition int32
	// Oldest is the first offset of the log, Newest the one that follows its
	// last, End the one up to which records can be read: the last stable offset.
	Oldest, Newest, End int64
	// Committed is the offset that the group has; -1: none.
	Committed int64
	// Stopped: a source found that Committed is not in the log.
	Stopped bool

	mark mark
}

// Partitions answers for every partition of the configured topics that there is,
// in the order of topics and numbers. Those without a leader are left out.
func (g *Group) Partitions(ctx context.Context) (all []PartitionOffsets, err error) {
	err = g.ask(ctx, func() error {
		all, err = g.partitions()
		return err
	})
	return all, err
}

func (g *Group) partitions() ([]PartitionOffsets, error) {
	infos, refused, err := g.source.topics.ask(g.control)
	if err != nil {
		return nil, err
	}
	for name, why := range refused {
		if !errors.Is(why, sarama.ErrUnknownTopicOrPartition) && !errors.Is(why, errNoMatch) {
			return nil, fmt.Errorf("topic %q: %w", name, why)
		}
	}
	var ids []partitionID
	for _, name := range names(infos) {
		for p := range infos[name].partitions {
			ids = append(ids, partitionID{name, p})
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	had, err := g.control.committed(infos)
	if err != nil {
		return nil, err
	}
	return g.offsets(ids, infos, had)
}

func (g *Group) offsets(ids []partitionID, infos map[string]topicInfo, had map[partitionID]committed) ([]PartitionOffsets, error) {
	oldest, err := g.control.offsets(ids, sarama.OffsetOldest, sarama.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	newest, err := g.control.offsets(ids, sarama.OffsetNewest, sarama.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	stable, err := g.control.offsets(ids, sarama.OffsetNewest, sarama.ReadCommitted)
	if err != nil {
		return nil, err
	}
	var all []PartitionOffsets
	for _, id := range ids {
		p := PartitionOffsets{
			Topic: id.topic, Partition: id.partition, Committed: -1,
			Oldest: oldest[id], Newest: newest[id], End: stable[id], mark: mark{topic: infos[id.topic].id},
		}
		if c, ok := had[id]; ok && !c.mark.ofAnother(infos[id.topic].id) {
			p.Committed, p.Stopped, p.mark.first = c.offset, c.mark.stopped, c.mark.first
		}
		if _, led := newest[id]; led {
			all = append(all, p)
		}
	}
	return all, nil
}

// At answers the first offset of each partition whose record is of t or later. It
// is Newest where there is no such record.
func (g *Group) At(ctx context.Context, partitions []PartitionOffsets, t time.Time) ([]int64, error) {
	ids := make([]partitionID, len(partitions))
	for i, p := range partitions {
		ids[i] = partitionID{p.Topic, p.Partition}
	}
	var found map[partitionID]int64
	err := g.ask(ctx, func() (err error) {
		found, err = g.control.offsets(ids, max(t.UnixMilli(), 0), sarama.ReadUncommitted)
		return err
	})
	at := make([]int64, len(ids))
	for i, id := range ids {
		offset, ok := found[id]
		if at[i] = offset; !ok || offset < 0 {
			at[i] = partitions[i].Newest
		}
	}
	return at, err
}

// Members names the group's members, by their instance or client ids and hosts.
func (g *Group) Members(ctx context.Context) (members []string, err error) {
	err = g.ask(ctx, func() error {
		members, err = g.control.members()
		return err
	})
	return members, err
}

// Move sets the group's offsets of partitions that Partitions has answered. It
// fails with ErrHasMembers if the group has members by now. If it fails for some
// partitions, the others have their new offsets.
func (g *Group) Move(ctx context.Context, partitions []PartitionOffsets, to []int64) error {
	offsets := make(map[partitionID]committed, len(to))
	for i, p := range partitions {
		offsets[partitionID{p.Topic, p.Partition}] = committed{offset: to[i], mark: p.mark}
	}
	return g.ask(ctx, func() error {
		answers, err := g.control.commit(member{generation: sarama.GroupGenerationUndefined}, offsets)
		for id, err := range answers {
			switch {
			case errors.Is(err, sarama.ErrUnknownMemberId), errors.Is(err, sarama.ErrIllegalGeneration), errors.Is(err, sarama.ErrRebalanceInProgress):
				return ErrHasMembers
			case err != nil:
				return fmt.Errorf("set the offset of %v: %w", id, err)
			}
		}
		return err
	})
}

// tries is how often a question is asked that no broker answers: each time others
// of those that are configured are asked, and a cluster that has just started may
// know the answer a moment later.
const tries = 5

// ask runs f until it succeeds, but not often, and for no longer than ctx.
func (g *Group) ask(ctx context.Context, f func() error) error {
	end := context.AfterFunc(ctx, g.source.dialer.cut)
	defer end()
	var err error
	for range tries {
		if err = f(); err == nil || errors.Is(err, ErrHasMembers) {
			return err
		}
		if !sleep(ctx, time.Duration(100+rand.IntN(100))*time.Millisecond) {
			break
		}
	}
	if words := g.source.explain(err); words != "" {
		err = fmt.Errorf("%s: %w", words, err)
	}
	if ctx.Err() != nil {
		return errors.Join(fmt.Errorf("the broker did not answer in time: %w", err), ctx.Err())
	}
	return err
}

// members describes the group.
func (c *control) members() ([]string, error) {
	coordinator, err := c.client.Coordinator(c.group)
	if err != nil {
		return nil, fmt.Errorf("find the coordinator of group %q: %w", c.group, err)
	}
	resp, err := coordinator.DescribeGroups(&sarama.DescribeGroupsRequest{Version: 4, Groups: []string{c.group}})
	if err != nil {
		return nil, c.lost(coordinator, fmt.Errorf("ask for the members of group %q: %w", c.group, err))
	}
	if len(resp.Groups) != 1 {
		return nil, sarama.ErrIncompleteResponse
	}
	group := resp.Groups[0]
	if err := kafkaError(group.Err); err != nil && !errors.Is(err, sarama.ErrGroupIDNotFound) {
		return nil, c.lost(nil, fmt.Errorf("ask for the members of group %q: %w", c.group, err))
	}
	var members []string
	for _, m := range group.Members {
		name := m.ClientId
		if m.GroupInstanceId != nil {
			name = *m.GroupInstanceId
		}
		members = append(members, name+" at "+strings.TrimPrefix(m.ClientHost, "/"))
	}
	slices.Sort(members)
	return members, nil
}
