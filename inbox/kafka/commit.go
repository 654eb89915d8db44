package kafka

import (
	"errors"
	"time"

	"github.com/IBM/sarama"
)

// commitLoop commits what is stored, at once if nothing was committed for an
// interval.
func (s *session) commitLoop() {
	timer := time.NewTimer(s.source.cfg.CommitInterval)
	defer timer.Stop()
	for {
		select {
		case <-s.stopCommits:
			return
		case <-s.queue.dirty:
		}
		if err := s.commit(); err != nil {
			s.queue.wakeCommits()
		}
		timer.Reset(s.source.cfg.CommitInterval)
		select {
		case <-s.stopCommits:
			return
		case <-timer.C:
		}
	}
}

// commitLast commits at the end of a session, and does not give up at once when
// the coordinator has just moved.
func (s *session) commitLast() {
	for range 3 {
		if s.commit() == nil {
			return
		}
	}
}

// commit commits every position that is not. It returns an error if it is worth
// to try again. A commit of an offset means that all before it are stored: the
// records of a partition are stored one batch after the other.
func (s *session) commit() error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	offsets := s.queue.uncommitted()
	if len(offsets) == 0 {
		return nil
	}
	answers, err := s.source.control.commit(s.member, offsets)
	if err != nil {
		s.source.trouble("commit", "Offsets could not be committed. They are tried again; if the group moves on without them, records come twice.", err)
		return err
	}
	var again error
	for id, err := range answers {
		switch {
		case err == nil:
			s.queue.setCommitted(id, offsets[id])
		case errors.Is(err, sarama.ErrUnknownMemberId), errors.Is(err, sarama.ErrIllegalGeneration), errors.Is(err, sarama.ErrFencedInstancedId):
			s.lose(err)
			return nil
		case errors.Is(err, sarama.ErrUnknownTopicOrPartition):
			s.source.lookAtTopics()
			again = err
		default:
			s.source.trouble("commit", "An offset could not be committed. It is tried again; if the group moves on without it, records come twice.", err,
				"topic", id.topic, "partition", id.partition)
			again = err
		}
	}
	if again == nil {
		s.source.better("commit", "Offsets are committed again.")
	}
	return again
}

// lose ends a session that the group has ended already. What is stored and not
// committed will come again to whoever has the partitions now.
func (s *session) lose(err error) {
	s.source.log.Warn("The group no longer knows this member; it joins anew.",
		"group", s.source.cfg.Group, "member", s.member.id, "generation", s.member.generation, "reason", err)
	s.queue.lose()
	s.end(errNotMine)
}
