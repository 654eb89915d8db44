package kafka

import (
	"maps"
	"slices"
	"time"
)

// wakeCommits makes the commit loop look for positions to commit.
func (q *queue) wakeCommits() {
	select {
	case q.dirty <- struct{}{}:
	default:
	}
}

// partition returns a partition of the session.
func (q *queue) partition(id partitionID) *partition {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.partitions[id]
}

// nextRead is the offset that follows the last one that was fetched, or passed.
func (q *queue) nextRead(p *partition) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(p.start, p.lastRead+1, p.position)
}

// stop marks a partition as stopped, for its next reader too.
func (q *queue) stop(p *partition, why string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.lastError, p.errorAt = why, time.Now()
	p.stopped, p.mark.stopped, p.uncommit = true, true, true
	q.wakeCommits()
}

// uncommitted are the positions that are not committed.
func (q *queue) uncommitted() map[partitionID]committed {
	q.mu.Lock()
	defer q.mu.Unlock()
	offsets := map[partitionID]committed{}
	for id, p := range q.partitions {
		if p.uncommit && !q.lost {
			offsets[id] = committed{offset: p.position, mark: p.mark}
		}
	}
	return offsets
}

// setCommitted notes what was committed.
func (q *queue) setCommitted(id partitionID, c committed) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := q.partitions[id]
	p.committed = c.offset
	p.uncommit = p.position != c.offset || p.mark != c.mark
}

// lose forgets what is not committed, for good: it is no longer ours to commit.
func (q *queue) lose() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lost = true
}

// markOf is what is written beside the offsets of p.
func (q *queue) markOf(p *partition) mark {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.mark
}

// isStopped reports whether a partition must not be read.
func (q *queue) isStopped(p *partition) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.stopped
}

// ids names the partitions.
func (q *queue) ids() []partitionID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.partitions))
}

// setEnds notes the last stable offsets.
func (q *queue) setEnds(ends map[partitionID]int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, end := range ends {
		if p := q.partitions[id]; p != nil {
			p.end = end
		}
	}
}
