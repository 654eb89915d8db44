package kafka_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/inboxd/inboxd/inbox"
)

type place struct {
	topic     string
	partition int32
}

// memory is a Sink that keeps what it is given, and the book on the order. It
// may be the Sink of several sources at once: over all of them, a record must
// not be stored before the one that stood before it in its partition, and a
// partition must not be in two calls at a time.
type memory struct {
	// before, if set, runs before records are stored; its error is Ingest's.
	before func(ctx context.Context, records []inbox.Record) error
	// after, if set, runs after they are stored and before Ingest returns.
	after func(ctx context.Context, records []inbox.Record) error
	// gaps allows the offsets of a partition to have gaps.
	gaps bool

	mu         sync.Mutex
	changed    chan struct{} // closed when something was stored
	stored     map[place][]inbox.Record
	next       map[place]int64 // the offset to come; absent: any
	twice      int             // records that came again
	batches    int
	inCall     map[place]bool
	violations []string
}

func newMemory() *memory {
	return &memory{
		changed: make(chan struct{}), stored: map[place][]inbox.Record{},
		next: map[place]int64{}, inCall: map[place]bool{},
	}
}

func (m *memory) Ingest(ctx context.Context, records []inbox.Record) error {
	places := m.enter(records)
	defer m.exit(places)
	if m.before != nil {
		if err := m.before(ctx, records); err != nil {
			return err
		}
	}
	m.store(records)
	if m.after != nil {
		return m.after(ctx, records)
	}
	return nil
}

func placeOf(r inbox.Record) place { return place{r.Source.Topic, r.Source.Partition} }

func (m *memory) enter(records []inbox.Record) map[place]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	places := map[place]bool{}
	for _, r := range records {
		places[placeOf(r)] = true
	}
	for p := range places {
		if m.inCall[p] {
			m.violations = append(m.violations, fmt.Sprintf("%v is in two calls at once", p))
		}
		m.inCall[p] = true
	}
	return places
}

func (m *memory) exit(places map[place]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range places {
		delete(m.inCall, p)
	}
}

func (m *memory) store(records []inbox.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := map[place]int64{}
	for _, r := range records {
		p, offset := placeOf(r), r.Source.Offset
		if l, ok := last[p]; ok && offset <= l {
			m.violations = append(m.violations, fmt.Sprintf("%v: offset %d after %d in one call", p, offset, l))
		}
		last[p] = offset
		next, known := m.next[p]
		switch {
		case known && offset < next:
			m.twice++
			continue
		case known && offset > next && !m.gaps:
			m.violations = append(m.violations, fmt.Sprintf("%v: offset %d came before %d", p, offset, next))
		}
		m.next[p] = offset + 1
		m.stored[p] = append(m.stored[p], r)
	}
	m.batches++
	close(m.changed)
	m.changed = make(chan struct{})
}

// count is how many records of a partition are stored.
func (m *memory) count(topic string, partition int32) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.stored[place{topic, partition}])
}

func (m *memory) of(topic string, partition int32) []inbox.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]inbox.Record(nil), m.stored[place{topic, partition}]...)
}

func (m *memory) total() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rs := range m.stored {
		n += len(rs)
	}
	return n
}

// await waits until is is true, looking whenever something was stored.
func (m *memory) await(b *bench, what string, is func() bool) {
	b.Helper()
	deadline := time.After(patience)
	for {
		m.mu.Lock()
		changed := m.changed
		m.mu.Unlock()
		if is() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			b.Fatalf("in vain waited until %s (%d records stored); the log:\n%s", what, m.total(), b.log)
		}
	}
}

func (m *memory) awaitCount(b *bench, topic string, partition int32, n int) {
	b.Helper()
	m.await(b, fmt.Sprintf("%s/%d has %d records", topic, partition, n), func() bool { return m.count(topic, partition) >= n })
}

// verify fails the test if the order was broken.
func (m *memory) verify(b *bench) {
	b.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.violations {
		b.Error(v)
	}
	if len(m.violations) > 0 {
		b.Logf("the log:\n%s", b.log)
	}
}

// verifyOnce also fails it if anything came twice.
func (m *memory) verifyOnce(b *bench) {
	b.Helper()
	m.verify(b)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.twice > 0 {
		b.Errorf("%d records came twice", m.twice)
	}
}
