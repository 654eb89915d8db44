package kafka

import (
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/inboxd/inboxd/inbox"
)

// queue holds the records of a session between the claims, which fill it, and
// the workers, which empty it. It knows each partition's turn, and how much is
// held.
//
// Everything is under one mutex. It is held while the client is told to pause
// or resume a partition, so that two such calls cannot change places; the
// client takes its own locks below it and calls nothing of ours.
type queue struct {
	limits  limits
	fetcher fetcher

	mu         sync.Mutex
	wake       sync.Cond // signalled when ready grows or closed is set
	partitions map[partitionID]*partition
	ready      []*partition // with records, idle, not backing off; the next is first
	idle       int          // workers that wait
	bytes      int          // held over all partitions
	paused     int          // partitions
	failing    int          // partitions
	closed     bool
	lost       bool // the partitions are others' now: nothing is committed

	dirty chan struct{} // has an element when an offset waits to be committed
}

// limits divide the memory, and the work.
type limits struct {
	bufferBytes                       int // of records that wait, see room
	reserve                           int // of bufferBytes, for each partition: what fetching it may bring
	batchRecords, batchBytes, workers int
}

// limits divides Config.BufferBytes. A quarter is for what the client holds: up to
// two fetches from each broker may be on their way when fetching stops, one that
// is being unpacked, and the next.
func (c Config) limits() limits {
	return limits{
		bufferBytes: c.BufferBytes / 4 * 3, reserve: 2 * int(c.fetchBytes()/4), batchRecords: c.BatchRecords,
		batchBytes: min(c.BatchBytes, max(c.BufferBytes/8, 1)), workers: c.Workers,
	}
}

// fetchBytes bounds one fetch from a broker, as it is sent. A partition has a
// quarter of it.
func (c Config) fetchBytes() int32 {
	return int32(min(max(c.BufferBytes/128, 64<<10), 4<<20))
}

// unpackedBytes is what one fetch from a broker is expected to be, once unpacked,
// at most.
func (c Config) unpackedBytes() int { return 2 * int(c.fetchBytes()) }

// fetcher stops and continues the fetching of a partition.
type fetcher interface {
	Pause(map[string][]int32)
	Resume(map[string][]int32)
}

// partition is one partition of the session.
type partition struct {
	id    partitionID
	mark  mark
	start int64 // where the claim begins

	records  []inbox.Record // fetched and not yet stored
	bytes    int
	paused   bool
	inLine   bool // it is in ready
	busy     bool // a worker has the first of its records
	lastRead int64
	meter    *meter // of the broker that it is fetched from

	retry *backoff.ExponentialBackOff // nil: its last batch was stored
	timer *time.Timer                 // makes it ready again

	position  int64 // all before it is stored
	waitsAt   int64 // the position when it last had nothing to store, see waiting
	committed int64 // -1: nothing yet
	uncommit  bool  // position or mark are not committed
	end       int64 // the last stable offset when it was last asked for
	stopped   bool
	lastError string
	errorAt   time.Time
}

func newQueue(l limits, f fetcher) *queue {
	q := &queue{limits: l, fetcher: f, partitions: map[partitionID]*partition{}, dirty: make(chan struct{}, 1)}
	q.wake.L = &q.mu
	return q
}

// add adds a partition before the workers start.
func (q *queue) add(id partitionID, b beginning) {
	p := &partition{
		id: id, mark: b.mark, start: b.offset, lastRead: -1, waitsAt: -1,
		position: b.offset, committed: b.had, uncommit: b.commit,
		end: b.reach.newest, stopped: b.stopped, meter: b.meter,
	}
	if b.stopped {
		p.position = b.had
		p.lastError, p.errorAt = outOfRange(b.had, b.reach), time.Now()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.partitions[id] = p
	if p.uncommit {
		q.wakeCommits()
	}
}

// push adds records that were fetched, in the order of their offsets.
func (q *queue) push(p *partition, records []inbox.Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || p.stopped {
		return
	}
	added := 0
	for i := range records {
		if records[i].Source.Offset <= p.lastRead { // never seen; it would break the order
			continue
		}
		p.lastRead = records[i].Source.Offset
		added += size(&records[i])
		p.records = append(p.records, records[i])
	}
	p.bytes += added
	q.bytes += added
	if p.meter != nil {
		p.meter.unpacked.Add(int64(added))
	}
	q.throttle(p)
	q.offer(p)
}

// offer puts a partition at the end of the line, if it has its turn to come.
func (q *queue) offer(p *partition) {
	if len(p.records) == 0 || p.busy || p.timer != nil || q.closed || p.inLine {
		return
	}
	p.inLine = true
	q.ready = append(q.ready, p)
	q.wake.Signal()
}

// close ends take for good and drops what no worker has. It may be called again.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready = nil
	for _, p := range q.partitions {
		if p.timer != nil {
			p.timer.Stop()
		}
	}
	q.wake.Broadcast()
}

// size is what a record takes in memory, about.
func size(r *inbox.Record) int {
	n := 160 + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += 48 + len(r.Headers[i].Name) + len(r.Headers[i].Value)
	}
	return n
}

func (id partitionID) asMap() map[string][]int32 {
	return map[string][]int32{id.topic: {id.partition}}
}
