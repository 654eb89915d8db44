package service

import (
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
)

// stateLeft is the state of a partition that nobody reads, as far as this process
// knows.
const stateLeft = "left"

// sourceRows are the arrays that note_sources takes.
type sourceRows struct {
	topics, states             []string
	partitions                 []int32
	positions, committed, ends []*int64
	counts                     []int64
	errors                     []*string
	errorTimes                 []*time.Time
	gone, whyGone              []string
	topicIDs                   []*string
}

func newSourceRows(st kafka.Stats, counts map[inbox.Partition]inbox.Counts) *sourceRows {
	r := &sourceRows{counts: []int64{}, gone: []string{}, whyGone: []string{}}
	mine := make(map[inbox.Partition]bool, len(st.Partitions))
	for _, p := range st.Partitions {
		key := partitionOf(p)
		mine[key] = true
		state := string(p.State)
		if st.Member == "" && p.State != kafka.Stopped {
			state = stateLeft
		}
		r.add(key, state, counts[key])
		last := len(r.topics) - 1
		r.positions[last], r.ends[last] = &p.Position, &p.End
		if p.TopicID != "" {
			r.topicIDs[last] = &p.TopicID
		}
		if p.Committed >= 0 {
			r.committed[last] = &p.Committed
		}
		if p.LastError != "" {
			r.errors[last], r.errorTimes[last] = &p.LastError, &p.LastErrorAt
		}
	}
	for key, c := range counts {
		if !mine[key] {
			r.add(key, stateLeft, c)
		}
	}
	for topic, why := range st.Missing {
		r.gone, r.whyGone = append(r.gone, topic), append(r.whyGone, why)
	}
	return r
}

// add adds a row whose position is not known.
func (r *sourceRows) add(p inbox.Partition, state string, c inbox.Counts) {
	r.topics, r.partitions, r.states = append(r.topics, p.Topic), append(r.partitions, p.Number), append(r.states, state)
	r.positions, r.committed, r.ends = append(r.positions, nil), append(r.committed, nil), append(r.ends, nil)
	r.counts = append(r.counts, c.Stored, c.Duplicates, c.Conflicts, c.Quarantined, c.Ignored)
	r.errors, r.errorTimes = append(r.errors, nil), append(r.errorTimes, nil)
	r.topicIDs = append(r.topicIDs, nil)
}

func (r *sourceRows) args(group, member, process string) []any {
	reader, by := &member, &process
	if member == "" { // between two memberships, or after the last
		reader, by = nil, nil
	}
	return []any{group, reader, by, r.topics, r.partitions, r.states, r.positions, r.committed, r.ends,
		r.counts, r.errors, r.errorTimes, r.gone, r.whyGone, r.topicIDs}
}
