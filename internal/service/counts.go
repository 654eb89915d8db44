package service

import (
	"fmt"

	"github.com/inboxd/inboxd/inbox/kafka"
)

// Counts is what a Service did since it was made.
type Counts struct {
	// What became of records.
	Stored, Duplicates, Conflicts, Quarantined, Ignored int64
	// What became of events: Failed counts attempts, Stuck counts lanes, and
	// Swept counts the processed events that the sweep found.
	Processed, Skipped, Failed, Stuck, Swept int64
}

// Counts answers what was done so far.
func (s *Service) Counts() Counts {
	in, lanes := s.Ingester.Counts(), s.Processor.Stats()
	return Counts{
		Stored: in.Stored, Duplicates: in.Duplicates, Conflicts: in.Conflicts,
		Quarantined: in.Quarantined, Ignored: in.Ignored,
		Processed: lanes.Processed, Skipped: lanes.Skipped, Failed: lanes.Failed,
		Stuck: lanes.Stuck, Swept: lanes.Swept,
	}
}

// Lag is how many records were not read yet, of the partitions of this process;
// ok is false between two memberships of the group.
func (s *Service) Lag() (lag int64, ok bool) {
	if s.source == nil {
		return 0, false
	}
	st := s.source.Stats()
	for _, p := range st.Partitions {
		lag += p.Lag
	}
	return lag, st.Member != "" || len(st.Partitions) > 0
}

// behind is the lag for the log, and the partitions that wait for a person.
func (s *Service) behind() (lag []any, stopped []string) {
	if n, ok := s.Lag(); ok {
		lag = []any{"lag", n}
	}
	st, _ := s.Kafka()
	for _, p := range st.Partitions {
		if p.State == kafka.Stopped {
			stopped = append(stopped, fmt.Sprintf("%s/%d", p.Topic, p.Partition))
		}
	}
	return lag, stopped
}

// Kafka is what is known of the source; ok is false if there is none.
func (s *Service) Kafka() (st kafka.Stats, ok bool) {
	if s.source == nil {
		return st, false
	}
	return s.source.Stats(), true
}

// Plus adds two Counts.
func (c Counts) Plus(o Counts) Counts {
	return Counts{
		Stored: c.Stored + o.Stored, Duplicates: c.Duplicates + o.Duplicates, Conflicts: c.Conflicts + o.Conflicts,
		Quarantined: c.Quarantined + o.Quarantined, Ignored: c.Ignored + o.Ignored,
		Processed: c.Processed + o.Processed, Skipped: c.Skipped + o.Skipped, Failed: c.Failed + o.Failed,
		Stuck: c.Stuck + o.Stuck, Swept: c.Swept + o.Swept,
	}
}

// Minus subtracts one from the other.
func (c Counts) Minus(o Counts) Counts {
	return Counts{
		Stored: c.Stored - o.Stored, Duplicates: c.Duplicates - o.Duplicates, Conflicts: c.Conflicts - o.Conflicts,
		Quarantined: c.Quarantined - o.Quarantined, Ignored: c.Ignored - o.Ignored,
		Processed: c.Processed - o.Processed, Skipped: c.Skipped - o.Skipped, Failed: c.Failed - o.Failed,
		Stuck: c.Stuck - o.Stuck, Swept: c.Swept - o.Swept,
	}
}
