package kafka

import (
	"fmt"

	"github.com/IBM/sarama"

	"github.com/inboxd/inboxd/inbox"
)

// ConsumeClaim implements sarama.ConsumerGroupHandler. It does nothing but
// carry records into the queue: work here would hold up every other partition
// of the same broker. It returns when the session ends, never before: to return
// ends the session for all partitions.
func (s *session) ConsumeClaim(group sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	p := s.queue.partition(partitionID{claim.Topic(), claim.Partition()})
	if p == nil { // it had no leader when the session was planned, and has one now
		s.end(errTopicsChanged)
		return nil
	}
	if claim.InitialOffset() != p.start {
		return fmt.Errorf("the claim begins at offset %d, but was planned to begin at %d", claim.InitialOffset(), p.start)
	}
	if s.queue.isStopped(p) {
		s.source.group.Pause(p.id.asMap())
	}
	var records []inbox.Record
	for {
		select {
		case <-group.Context().Done():
			return nil
		case m, open := <-claim.Messages():
			if !open {
				return s.cutOff(group, p)
			}
			records = gather(records[:0], m, claim.Messages())
			s.queue.push(p, records)
			clear(records)
		}
	}
}

// gather makes records of m and of those that are there behind it already.
func gather(records []inbox.Record, m *sarama.ConsumerMessage, more <-chan *sarama.ConsumerMessage) []inbox.Record {
	for {
		records = append(records, toRecord(m))
		if len(records) == cap(records) && len(records) >= 512 {
			return records
		}
		select {
		case next, open := <-more:
			if !open {
				return records // the next read finds it closed, too
			}
			m = next
		default:
			return records
		}
	}
}

// toRecord copies what the message points to. The client's messages are parts of
// the answer they came in: one small record that has to wait would keep a whole
// fetch in memory.
func toRecord(m *sarama.ConsumerMessage) inbox.Record {
	room := len(m.Key) + len(m.Value)
	for _, h := range m.Headers {
		room += len(h.Value)
	}
	own := copier{make([]byte, 0, room)}
	r := inbox.Record{
		Key: own.copy(m.Key), Value: own.copy(m.Value),
		Source: inbox.Source{Topic: m.Topic, Partition: m.Partition, Offset: m.Offset},
	}
	if m.Timestamp.Year() <= 9999 { // a producer may write any number
		r.Time = m.Timestamp
	}
	if len(m.Headers) > 0 {
		r.Headers = make([]inbox.Header, len(m.Headers))
		for i, h := range m.Headers {
			r.Headers[i] = inbox.Header{Name: string(h.Key), Value: own.copy(h.Value)}
		}
	}
	return r
}

// copier copies byte slices into one.
type copier struct{ room []byte }

// copy keeps nil and empty apart.
func (c *copier) copy(b []byte) []byte {
	if b == nil {
		return nil
	}
	start := len(c.room)
	c.room = append(c.room, b...)
	return c.room[start:len(c.room):len(c.room)]
}

// cutOff is what happens when the client closes a claim. It does so at the end
// of the session, and in its middle when the broker says that the offset to read
// next is not in the log: then only this partition stops.
func (s *session) cutOff(group sarama.ConsumerGroupSession, p *partition) error {
	if group.Context().Err() != nil {
		return nil
	}
	infos, err := s.source.topics.lookUp(s.source.control)
	if err != nil {
		return fmt.Errorf("the client stopped reading %v: %w", p.id, err)
	}
	if s.queue.markOf(p).ofAnother(infos[p.id.topic].id) {
		s.end(errTopicsChanged)
		return nil
	}
	r, err := s.source.reach(p.id)
	if err != nil {
		return fmt.Errorf("the client stopped reading %v: %w", p.id, err)
	}
	next := s.queue.nextRead(p)
	if r.holds(next) {
		return fmt.Errorf("the client stopped reading %v at offset %d, which is there", p.id, next)
	}
	s.queue.stop(p, outOfRange(next, r))
	s.source.reportOutOfRange(p.id, next, r)
	<-group.Context().Done()
	return nil
}

// reach asks what a partition's log holds.
func (s *Source) reach(id partitionID) (reach, error) {
	ids := []partitionID{id}
	oldest, err := s.control.offsets(ids, sarama.OffsetOldest, sarama.ReadUncommitted)
	if err != nil {
		return reach{}, err
	}
	newest, err := s.control.offsets(ids, sarama.OffsetNewest, sarama.ReadUncommitted)
	if err == nil && len(oldest)+len(newest) < 2 {
		err = sarama.ErrLeaderNotAvailable
	}
	return reach{oldest[id], newest[id]}, err
}

// outOfRange is the error of a partition whose next offset is not in the log.
func outOfRange(next int64, r reach) string {
	return fmt.Sprintf("offset %d is not in the broker's log, which holds %d up to %d; set it with inboxd sources reset",
		next, r.oldest, r.newest)
}

// reportOutOfRange is loud on purpose: records may be lost, and how to go on is
// for a person to decide.
func (s *Source) reportOutOfRange(id partitionID, next int64, r reach) {
	s.log.Error("A partition has stopped: its next offset is not in the broker's log. "+
		"Nothing is skipped without being told. To go on, stop every process of the group, set the offset with "+
		"inboxd sources reset (--topic, --partition and --to oldest, say), and start again.",
		"topic", id.topic, "partition", id.partition, "group", s.cfg.Group,
		"next_offset", next, "log_start", r.oldest, "log_end", r.newest)
}
