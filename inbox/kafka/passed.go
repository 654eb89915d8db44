package kafka

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/IBM/sarama"
)

// passEmpty moves positions past offsets that hold no record for anybody: the
// marks that end transactions, and what was aborted. The client passes over them
// without a word, so a partition that ends with them would lag for ever, and
// would count as one whose records were lost when retention has deleted them.
func (s *Source) passEmpty(sess *session) {
	for id, from := range sess.queue.waiting() {
		to, err := s.control.emptyUpTo(id, from)
		if err != nil {
			s.trouble("pass", "It is not known whether a partition has more to read.", err, "topic", id.topic, "partition", id.partition)
			continue
		}
		sess.queue.pass(id, from, to)
	}
}

// waiting are the positions of partitions that have more offsets, and nothing
// to store. The first time is not counted: records may be on their way.
func (q *queue) waiting() map[partitionID]int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := map[partitionID]int64{}
	for id, p := range q.partitions {
		if p.position >= p.end || !p.idle() {
			continue
		}
		if p.waitsAt == p.position {
			waiting[id] = p.position
		}
		p.waitsAt = p.position
	}
	return waiting
}

// idle reports whether nothing was fetched that is not stored.
func (p *partition) idle() bool { return len(p.records) == 0 && !p.busy && !p.stopped }

// pass moves a position, unless it has moved by itself.
func (q *queue) pass(id partitionID, from, to int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.partitions[id]
	if p == nil || p.position != from || to <= from || !p.idle() {
		return
	}
	p.position, p.uncommit = to, true
	q.wakeCommits()
}

// emptyLooks is how often emptyUpTo looks on at most, and emptyLook how many bytes
// it asks for each time: few, since they are unpacked at once.
const emptyLooks, emptyLook = 100, 64 << 10

// emptyUpTo looks at what comes at an offset, and returns the offset up to which
// there is no record to be read; the same one if there is a record at once, or
// nothing yet.
func (c *control) emptyUpTo(id partitionID, from int64) (int64, error) {
	for range emptyLooks {
		to, err := c.emptyFrom(id, from)
		if err != nil || to == from {
			return to, err
		}
		from = to
	}
	return from, nil
}

// emptyFrom looks once.
func (c *control) emptyFrom(id partitionID, from int64) (int64, error) {
	leader, err := c.client.Leader(id.topic, id.partition)
	if err != nil {
		return from, fmt.Errorf("find the leader of %v: %w", id, err)
	}
	const version = 11 // the last that names topics as all brokers do
	req := &sarama.FetchRequest{
		Version: version, MinBytes: 1, MaxBytes: emptyLook, Isolation: sarama.ReadCommitted, SessionEpoch: -1, // no session
	}
	req.AddBlock(id.topic, id.partition, from, emptyLook, -1)
	resp, err := leader.Fetch(req)
	if err != nil {
		_ = leader.Close()
		return from, errors.Join(fmt.Errorf("ask %s for records: %w", leader.Addr(), err), c.refresh([]partitionID{id}))
	}
	block := resp.GetBlock(id.topic, id.partition)
	if block == nil {
		return from, sarama.ErrIncompleteResponse
	}
	if block.Err != sarama.ErrNoError {
		return from, errors.Join(fmt.Errorf("ask for records of %v: %w", id, block.Err), c.refresh([]partitionID{id}))
	}
	return emptyBatches(block, from), nil
}

// emptyBatches goes through an answer as far as it holds no record for anybody.
func emptyBatches(block *sarama.FetchResponseBlock, from int64) int64 {
	aborted := slices.Clone(block.AbortedTransactions)
	slices.SortFunc(aborted, func(a, b *sarama.AbortedTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	open := map[int64]bool{} // producers in the middle of an aborted transaction
	for _, set := range block.RecordsSet {
		b := set.RecordBatch
		if b == nil || b.PartialTrailingRecord {
			return from
		}
		for len(aborted) > 0 && aborted[0].FirstOffset <= b.LastOffset() {
			open[aborted[0].ProducerID] = true
			aborted = aborted[1:]
		}
		switch {
		case b.Control:
			if isAbort(b) {
				delete(open, b.ProducerID)
			}
		case b.IsTransactional && open[b.ProducerID]:
		case hasRecordFrom(b, from):
			return from
		}
		from = max(from, b.LastOffset()+1)
	}
	return from
}

// isAbort reports whether a mark ends an aborted transaction: its key is a
// version and a kind, of two bytes each, and the kind is 0.
func isAbort(b *sarama.RecordBatch) bool {
	return len(b.Records) > 0 && len(b.Records[0].Key) >= 4 && binary.BigEndian.Uint16(b.Records[0].Key[2:]) == 0
}

// hasRecordFrom reports whether a batch has a record at or after an offset:
// compaction leaves batches without any.
func hasRecordFrom(b *sarama.RecordBatch, from int64) bool {
	return slices.ContainsFunc(b.Records, func(r *sarama.Record) bool { return b.FirstOffset+r.OffsetDelta >= from })
}
