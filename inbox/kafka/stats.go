package kafka

import (
	"cmp"
	"slices"
	"time"
)

// Stats is what a Source knows of itself at one time.
type Stats struct {
	// Member and Generation are the membership of the group; empty and 0
	// between two.
	Member     string
	Generation int32
	// Missing are the topics that cannot be read, with the reason.
	Missing map[string]string
	// LastError is what went wrong last, and may be over.
	LastError   string
	LastErrorAt time.Time
	// Partitions are those of this member, by topic and number. After Run they are
	// those that it had last.
	Partitions []PartitionStats
}

// State is what a partition does.
type State string

// The states of a partition.
const (
	// Reading: its records are fetched and stored.
	Reading State = "reading"
	// Retrying: its last records could not be stored, and are tried again.
	Retrying State = "retrying"
	// Stopped: its offset is not in the log, and a person has to decide.
	Stopped State = "stopped"
)

// PartitionStats is what is known of a partition of this member.
type PartitionStats struct {
	Topic     string
	Partition int32
	// TopicID tells the topic from an older or newer one of its name; empty: the
	// broker gives topics no ids.
	TopicID string
	State   State
	// Position is the offset before which all is stored.
	Position int64
	// Committed is the offset that the group has; -1: none.
	Committed int64
	// End is the last stable offset, up to which records can be read, as it was
	// within the last TopicRefresh.
	End int64
	// Lag is how many offsets there are from Position to End. Those of the marks
	// that end transactions count until it is seen that no record follows, which
	// takes two TopicRefreshes.
	Lag int64
	// Buffered and BufferedBytes are what was fetched and not yet stored.
	Buffered      int
	BufferedBytes int
	// LastError is what went wrong last with this partition, and may be over.
	LastError   string
	LastErrorAt time.Time
}

// Stats returns what is known now. It asks nobody and may be called at any time.
func (s *Source) Stats() Stats {
	st := Stats{Missing: map[string]string{}}
	for name, reason := range s.topics.missing() {
		st.Missing[name] = reason.Error()
	}
	s.mu.Lock()
	sess := s.session
	st.Partitions = s.final
	st.LastError, st.LastErrorAt = s.lastError, s.lastErrorAt
	s.mu.Unlock()
	if sess != nil {
		st.Member, st.Generation = sess.member.id, sess.member.generation
		st.Partitions = sess.queue.stats()
	}
	return st
}

func (q *queue) stats() []PartitionStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]PartitionStats, 0, len(q.partitions))
	for id, p := range q.partitions {
		st := PartitionStats{
			Topic: id.topic, Partition: id.partition, TopicID: idText(p.mark.topic), State: Reading,
			Position: p.position, Committed: p.committed, End: max(p.end, p.position),
			Buffered: len(p.records), BufferedBytes: p.bytes,
			LastError: p.lastError, LastErrorAt: p.errorAt,
		}
		switch {
		case p.stopped:
			st.State = Stopped
			st.End = p.end // which may be before the position
		case p.retry != nil:
			st.State = Retrying
		}
		st.Lag = max(0, st.End-st.Position)
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b PartitionStats) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

// noteError keeps an error of a partition for its stats.
func (q *queue) noteError(id partitionID, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.partitions[id]; p != nil {
		p.lastError, p.errorAt = err.Error(), time.Now()
	}
}
