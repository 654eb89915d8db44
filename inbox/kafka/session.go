package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// errNotMine ends a session when the group says that this member has lost it.
var errNotMine = errors.New("the group has given the partitions to others")

// session is one membership of the group, between two rebalances. It is a
// sarama.ConsumerGroupHandler that is used once.
type session struct {
	source *Source
	queue  *queue
	end    context.CancelCauseFunc // ends the session

	member member
	begun  time.Time
	cause  error // why it ended; set by Cleanup

	ingest       context.Context // of the calls to Ingest
	cancelIngest context.CancelFunc
	workers      sync.WaitGroup
	stopCommits  chan struct{}
	commits      sync.WaitGroup
	commitMu     sync.Mutex // one commit at a time
}

// newSession returns a session whose calls to Ingest have the values of ctx,
// but end with the session.
func (s *Source) newSession(ctx context.Context, end context.CancelCauseFunc) *session {
	sess := &session{source: s, end: end, stopCommits: make(chan struct{})}
	sess.queue = newQueue(s.cfg.limits(), s.group)
	sess.ingest, sess.cancelIngest = context.WithCancel(context.WithoutCancel(ctx))
	return sess
}

// Setup implements sarama.ConsumerGroupHandler: it decides where the claims
// begin and starts the workers. Heartbeats go on meanwhile.
func (s *session) Setup(group sarama.ConsumerGroupSession) error {
	s.member = member{group.MemberID(), group.GenerationID()}
	s.begun = time.Now()
	begins, err := s.planPatiently(group)
	if err != nil {
		return fmt.Errorf("find out where to begin: %w", err)
	}
	s.source.better("plan", "It is known where the partitions begin.")
	for id, b := range begins {
		// The client's own marks are never committed; they only say where the
		// claims begin. One of these two moves the mark, up or down.
		group.MarkOffset(id.topic, id.partition, b.offset, "")
		group.ResetOffset(id.topic, id.partition, b.offset, "")
		s.queue.add(id, b)
		s.source.reportBeginning(id, b)
	}
	s.source.group.Resume(group.Claims()) // a pause outlives the session it was made in
	for range s.source.cfg.Workers {      // before anybody can wait for them
		s.workers.Go(s.work)
	}
	if !s.source.enter(s) {
		return errStopping // Cleanup follows
	}
	s.source.log.Info("The group has given out its partitions.", "group", s.source.cfg.Group,
		"member", s.member.id, "generation", s.member.generation, "partitions", len(begins))
	s.commits.Go(s.commitLoop)
	return nil
}

// planPatiently tries again for as long as the session lasts, since to give up
// would only make the group rebalance for the same.
func (s *session) planPatiently(group sarama.ConsumerGroupSession) (map[partitionID]beginning, error) {
	retry := newBackoff(50*time.Millisecond, time.Second)
	for {
		begins, err := s.source.plan(group.Context(), group.Claims())
		if err == nil || errors.Is(err, sarama.ErrUnknownTopicOrPartition) {
			return begins, err
		}
		s.source.trouble("plan", "It is not known where the partitions begin. Broker and database are asked again until it is.", err)
		if !sleep(group.Context(), retry.NextBackOff()) {
			return nil, err
		}
	}
}

func (s *Source) reportBeginning(id partitionID, b beginning) {
	switch {
	case b.stopped:
		s.reportOutOfRange(id, b.had, b.reach)
	case b.remade:
		s.log.Warn("A topic was deleted and made again; it is read from its beginning.",
			"topic", id.topic, "partition", id.partition, "group", s.cfg.Group, "committed_offset", b.had, "offset", b.offset)
	case b.known:
		s.log.Warn("The group has no offset of a partition that it has read: Kafka has forgotten it. It goes on from the position that is remembered.",
			"topic", id.topic, "partition", id.partition, "group", s.cfg.Group, "offset", b.offset)
	case b.had < 0:
		s.log.Info("The group has no offset of a partition yet.",
			"topic", id.topic, "partition", id.partition, "group", s.cfg.Group, "offset", b.offset)
	}
}

// work is a worker: it stores batches until the queue is closed.
func (s *session) work() {
	var b batch
	for s.queue.take(&b) {
		if err := s.source.sink.Ingest(s.ingest, b.records); err != nil {
			s.queue.failed(&b, err)
			if s.ingest.Err() == nil {
				s.source.trouble("sink", "Records could not be stored. Nothing is lost: they are tried again until they are.", err)
			}
			continue
		}
		if s.queue.stored(&b) {
			s.source.better("sink", "Records are stored again.")
		}
	}
}

// drain lets the calls to Ingest that run finish, cancels them after the grace,
// and returns when they have returned. It reports whether it had to cancel.
func (s *session) drain(grace time.Duration) (cut bool) {
	s.queue.close()
	ended := make(chan struct{})
	go func() {
		s.workers.Wait()
		close(ended)
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
		s.cancelIngest()
		<-ended
		return true
	}
	return false
}

// Cleanup implements sarama.ConsumerGroupHandler: it ends the workers and
// commits what they have stored. The claims have returned.
func (s *session) Cleanup(group sarama.ConsumerGroupSession) error {
	s.cause = context.Cause(group.Context())
	if s.drain(rebalanceGrace) {
		s.source.log.Warn("Storing records took too long for a rebalance and was cut short; they come again.",
			"group", s.source.cfg.Group, "grace", rebalanceGrace.String())
	}
	s.cancelIngest()
	close(s.stopCommits)
	s.commits.Wait()
	s.commitLast()
	s.source.leave(s)
	return nil
}

// lasted is how long a session was one; 0 if it never began.
func (s *session) lasted() time.Duration {
	if s.begun.IsZero() {
		return 0
	}
	return time.Since(s.begun)
}

// endedWell reports whether the session ended because the group or the topics
// have changed: then the next one begins at once, for the others wait for it.
func (s *session) endedWell() bool {
	return errors.Is(s.cause, sarama.ErrRebalanceInProgress) ||
		errors.Is(s.cause, sarama.ErrSessionPartitionCountChanged) ||
		errors.Is(s.cause, errTopicsChanged) ||
		errors.Is(s.cause, errPasswordChanged)
}
