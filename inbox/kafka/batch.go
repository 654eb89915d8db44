package kafka

import (
	"cmp"
	"slices"
	"time"

	"github.com/inboxd/inboxd/inbox"
)

// batch is what one call to Ingest gets.
type batch struct {
	records []inbox.Record
	parts   []part
}

// part is one partition's share of a batch: the first n of its records. They
// stay in the queue until they are stored.
type part struct {
	*partition
	n     int
	bytes int
}

// take waits for records and fills b with them, or returns false when the queue
// is closed. Nothing is waited for to make a batch larger: batches grow because
// records come while all workers are busy.
func (q *queue) take(b *batch) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(b.records)
	b.records, b.parts = b.records[:0], b.parts[:0]
	q.idle++
	for len(q.ready) == 0 && !q.closed {
		q.wake.Wait()
	}
	chosen := q.choose()
	q.idle--
	if q.closed {
		return false
	}
	q.fill(b, chosen)
	return true
}

// fill divides a batch among partitions. The smallest come first, so that what
// one leaves of its share is for the others; but before them the one whose turn
// it is, if it needs more than its share. Who gets none stays at the head of the
// line, in its place.
func (q *queue) fill(b *batch, chosen []*partition) {
	order, head := slices.Clone(chosen), chosen[0]
	rest := order
	if size(&head.records[0]) > q.limits.batchBytes/len(chosen) {
		rest = order[1:]
	}
	slices.SortFunc(rest, func(x, y *partition) int { return cmp.Compare(len(x.records), len(y.records)) })
	bytes := 0
	for i, p := range order {
		left := len(order) - i
		pt := p.head((q.limits.batchRecords-len(b.records))/left, (q.limits.batchBytes-bytes)/left, p == head)
		if pt.n == 0 {
			continue
		}
		p.inLine, p.busy = false, true
		bytes += pt.bytes
		b.records = append(b.records, p.records[:pt.n]...)
		b.parts = append(b.parts, pt)
	}
	none := slices.DeleteFunc(chosen, func(p *partition) bool { return p.busy })
	if len(none) > 0 {
		q.ready = append(none, q.ready...)
		q.wake.Signal()
	}
}

// choose takes partitions from the line: the first, and as many of those behind
// it as are this worker's part if every idle worker is to have some. One whose
// last batch failed comes alone, so that it cannot make others fail.
func (q *queue) choose() []*partition {
	if len(q.ready) == 0 {
		return nil
	}
	want := min((len(q.ready)+q.idle-1)/q.idle, q.limits.batchRecords)
	if q.ready[0].retry != nil {
		want = 1
	}
	var chosen, rest []*partition
	for i, p := range q.ready {
		if i == 0 || len(chosen) < want && p.retry == nil {
			chosen = append(chosen, p)
		} else {
			rest = append(rest, p)
		}
	}
	q.ready = rest
	return chosen
}

// head is the first records of p within the limits; one at least if must is set.
func (p *partition) head(records, bytes int, must bool) part {
	pt := part{partition: p}
	for pt.n < len(p.records) {
		s := size(&p.records[pt.n])
		if (pt.n >= records || pt.bytes+s > bytes) && (pt.n > 0 || !must) {
			break
		}
		pt.n++
		pt.bytes += s
	}
	return pt
}

// stored takes the records of a batch out of the queue. It reports whether a
// partition had been failing.
func (q *queue) stored(b *batch) (recovered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pt := range b.parts {
		p := pt.partition
		p.position = p.records[pt.n-1].Source.Offset + 1
		p.uncommit = true
		clear(p.records[:pt.n])
		p.records = p.records[pt.n:]
		p.bytes -= pt.bytes
		q.bytes -= pt.bytes
		p.busy = false
		if p.retry != nil {
			p.retry, recovered = nil, true
			q.failing--
		}
		q.offer(p)
	}
	q.relax()
	q.wakeCommits()
	if recovered {
		q.hurry()
	}
	return recovered
}

// hurry lets all try again that back off: what was wrong is over, it seems.
func (q *queue) hurry() {
	for _, p := range q.partitions {
		if p.timer != nil && p.timer.Stop() {
			p.timer = nil
			q.offer(p)
		}
	}
}

// failed leaves the records of a batch where they are and makes its partitions
// wait before their next turn. The waits grow with the number of partitions
// that fail, so that a database that is away is not asked more often by many.
func (q *queue) failed(b *batch, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pt := range b.parts {
		p := pt.partition
		p.busy = false
		p.lastError, p.errorAt = err.Error(), time.Now()
		if p.retry == nil {
			p.retry = newBackoff(100*time.Millisecond, 5*time.Second)
			q.failing++
		}
		if q.closed {
			continue
		}
		wait := p.retry.NextBackOff() * time.Duration(max(1, q.failing/q.limits.workers))
		p.timer = time.AfterFunc(wait, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			p.timer = nil
			q.offer(p)
		})
	}
}
