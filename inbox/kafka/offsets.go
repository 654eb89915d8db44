package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"
)

// beginning is where a claim begins, and why.
type beginning struct {
	offset  int64
	mark    mark
	commit  bool // the group should have this offset, and has another or none
	stopped bool // it must not be read: offset is one that the broker accepts
	remade  bool // the group's offset was of an older topic of that name
	known   bool // the group's offset is one that was remembered elsewhere
	had     int64
	reach   reach
	meter   *meter // of the partition's leader
}

// reach is what the log of a partition holds: records from oldest up to, but
// not including, newest.
type reach struct{ oldest, newest int64 }

func (r reach) holds(offset int64) bool { return offset >= r.oldest && offset <= r.newest }

// begin decides where one partition begins. info is what was known about its
// topic before the other two were asked for; first is how many partitions count
// as being there at the group's first start; start is where those begin.
func begin(id partitionID, info topicInfo, had *committed, r reach, first int32, start int64) beginning {
	b := beginning{mark: mark{topic: info.id, first: first}, reach: r, had: -1}
	if had == nil {
		b.offset, b.commit = r.oldest, true
		if id.partition < first {
			b.offset = start
		}
		return b
	}
	b.had, b.known, b.commit = had.offset, had.remembered, had.remembered
	b.mark.first = had.mark.first
	if had.mark.ofAnother(info.id) {
		b.offset, b.commit, b.remade, b.mark.first = r.oldest, true, true, 0
		return b
	}
	if had.mark.stopped || !r.holds(had.offset) {
		b.stopped, b.commit = true, !had.mark.stopped || had.remembered
		b.offset, b.mark.stopped = r.newest, true
		return b
	}
	b.offset = had.offset
	return b
}

// firstPartitions says how many partitions of a topic count as being there at
// the group's first start, which is now if the group has no offset of the topic.
// isNew: the topic was made, or made anew, since this process runs.
func firstPartitions(topic string, info topicInfo, start Start, isNew bool, had map[partitionID]committed) int32 {
	first, begun := info.partitions, false
	for id, c := range had {
		if id.topic != topic {
			continue
		}
		begun = true
		if c.mark.ofAnother(info.id) {
			return 0
		}
		first = min(first, c.mark.first)
	}
	if !begun && (isNew || start == Oldest) {
		return 0
	}
	return first
}

// plan decides where the partitions of a session begin. Those without a leader
// are left out: the client waits for one before it claims them, and then a
// session begins anew, with a plan for all. The topics are asked
// for before their offsets: an offset is then never taken for one of a topic
// that came after it.
func (s *Source) plan(ctx context.Context, claims map[string][]int32) (map[partitionID]beginning, error) {
	var ids []partitionID
	for topic, partitions := range claims {
		for _, p := range partitions {
			ids = append(ids, partitionID{topic, p})
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	infos, err := s.topics.lookUp(s.control)
	if err != nil {
		return nil, err
	}
	claimed := make(map[string]topicInfo, len(claims))
	for topic := range claims {
		info, ok := infos[topic]
		if !ok {
			return nil, fmt.Errorf("topic %q: %w", topic, sarama.ErrUnknownTopicOrPartition)
		}
		claimed[topic] = info
	}
	had, err := s.control.committed(claimed)
	if err == nil {
		had, err = s.remember(ctx, ids, claimed, had)
	}
	if err != nil {
		return nil, err
	}
	return s.beginnings(ids, claimed, had)
}

// remember adds what is known from elsewhere to the offsets of the group, for
// partitions that it has none of. What is not surely of the topic of now is left
// out: Kafka also forgets the offsets of a topic that is deleted.
func (s *Source) remember(ctx context.Context, ids []partitionID, infos map[string]topicInfo, had map[partitionID]committed) (map[partitionID]committed, error) {
	unknown := func(id partitionID) bool { _, known := had[id]; return !known }
	if s.cfg.Remembered == nil || !slices.ContainsFunc(ids, unknown) {
		return had, nil
	}
	remembered, err := s.cfg.Remembered(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for positions that are remembered: %w", err)
	}
	all := maps.Clone(had)
	if all == nil {
		all = map[partitionID]committed{}
	}
	for _, r := range remembered {
		id, info := partitionID{r.Topic, r.Partition}, infos[r.Topic]
		if r.TopicID != "" && r.TopicID == idText(info.id) && unknown(id) {
			all[id] = committed{offset: r.Position, mark: mark{topic: info.id}, remembered: true}
		}
	}
	return all, nil
}

func (s *Source) beginnings(ids []partitionID, infos map[string]topicInfo, had map[partitionID]committed) (map[partitionID]beginning, error) {
	oldest, err := s.control.offsets(ids, sarama.OffsetOldest, sarama.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	newest, err := s.control.offsets(ids, sarama.OffsetNewest, sarama.ReadUncommitted)
	if err != nil {
		return nil, err
	}
	starts, err := s.starts(ids, newest)
	if err != nil {
		return nil, err
	}
	first := make(map[string]int32, len(infos))
	for topic, info := range infos {
		first[topic] = firstPartitions(topic, info, s.cfg.Start, s.topics.isNew(topic), had)
	}
	begins := make(map[partitionID]beginning, len(ids))
	for _, id := range ids {
		_, had1 := oldest[id]
		_, had2 := newest[id]
		if !had1 || !had2 {
			continue // it has no leader
		}
		var c *committed
		if found, ok := had[id]; ok {
			c = &found
		}
		b := begin(id, infos[id.topic], c, reach{oldest[id], newest[id]}, first[id.topic], starts[id])
		b.meter = s.meterOf(id)
		begins[id] = b
	}
	return begins, nil
}

// starts is where the group's first start is, by the configuration.
func (s *Source) starts(ids []partitionID, newest map[partitionID]int64) (map[partitionID]int64, error) {
	if s.cfg.Start.at.IsZero() {
		return newest, nil // of Oldest nothing is asked
	}
	starts, err := s.control.offsets(ids, max(s.cfg.Start.at.UnixMilli(), 0), sarama.ReadUncommitted)
	for id, at := range starts {
		if at < 0 { // no record is as young as that
			starts[id] = newest[id]
		}
	}
	return starts, err
}
