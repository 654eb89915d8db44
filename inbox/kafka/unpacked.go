package kafka

import (
	"bytes"
	"encoding/binary"
	"math"
	"net"
	"sync"
	"sync/atomic"
)

// The client asks a broker for so many bytes, as they are sent, and unpacks the
// answer at once: of a strongly compressed topic that may be a thousand times as
// much. So each request for records is changed, on its way, to ask for no more
// than is expected to fit once it is unpacked. What is expected is learnt from the
// answers before, and begins small. A broker answers with one batch of a producer
// in any case, however large.

// meters learn what the answers of brokers are once they are unpacked.
type meters struct {
	most   int32 // bytes of an answer, as they are sent
	target int   // bytes of an answer, once unpacked

	mu sync.Mutex
	of map[string]*meter // by the address of the broker
}

func newMeters(cfg Config) *meters {
	return &meters{most: cfg.fetchBytes(), target: cfg.unpackedBytes(), of: map[string]*meter{}}
}

// at is the meter of a broker.
func (m *meters) at(addr string) *meter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of[addr] == nil {
		m.of[addr] = &meter{all: m, limit: firstFetch, ratio: 1}
	}
	return m.of[addr]
}

// ratio is the largest of all meters: a partition whose leader moves brings its
// records along.
func (m *meters) ratio() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := 1.0
	for _, one := range m.of {
		one.mu.Lock()
		most = max(most, one.ratio)
		one.mu.Unlock()
	}
	return most
}

// Dial implements the client library's interface of a dialer.
func (d meteredDialer) Dial(network, addr string) (net.Conn, error) {
	conn, err := d.dialer.Dial(network, addr)
	if err != nil {
		return nil, err
	}
	return meteredConn{conn, d.meters.at(addr)}, nil
}

// meteredDialer is for the client that fetches.
type meteredDialer struct {
	dialer *dialer
	meters *meters
}

const (
	// firstFetch is what is asked for as long as nothing is known: one batch.
	firstFetch = 1
	// forget is how much of a ratio is left after each answer with a lower one.
	forget = 0.95
)

// meter is what is known of the answers of one broker.
type meter struct {
	all *meters

	// Since the last request for records. What is unpacked is counted when it
	// leaves the client, which may be an answer or two later than it was read.
	packed, unpacked atomic.Int64

	mu     sync.Mutex
	window [4]struct{ packed, unpacked int64 } // the last answers that brought something
	turn   int
	ratio  float64 // of unpacked to packed
	limit  int32   // what may be asked for next, as far as this broker is concerned
}

// next is called before each request for records, and says how many bytes it may
// ask for. Answers that are as large as they may be make it twice as many, idleness
// makes it less: whatever is in a log comes first in a small answer.
func (m *meter) next() int32 {
	packed, unpacked := m.packed.Swap(0), m.unpacked.Swap(0)
	m.mu.Lock()
	full := packed >= int64(m.limit/2)
	if full || unpacked > 0 {
		m.note(packed, unpacked)
	}
	switch {
	case full && unpacked > 0: // not before it is known what the last ones were
		m.limit = 2 * min(max(m.limit, int32(min(packed, math.MaxInt32/2))), m.all.most/2)
	case packed < int64(m.limit/4):
		m.limit = max(firstFetch, m.limit/2)
	}
	m.mu.Unlock()
	fits := max(1, min(int64(m.all.most), int64(float64(m.all.target)/m.all.ratio())))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit = min(m.limit, int32(fits))
	return m.limit
}

func (m *meter) note(packed, unpacked int64) {
	m.window[m.turn].packed, m.window[m.turn].unpacked = packed, unpacked
	m.turn = (m.turn + 1) % len(m.window)
	packed, unpacked = 1, 0
	for _, answer := range m.window {
		packed += answer.packed
		unpacked += answer.unpacked
	}
	m.ratio = max(1, float64(unpacked)/float64(packed), m.ratio*forget)
}

// meteredConn is a connection to a broker over which records come.
type meteredConn struct {
	net.Conn
	meter *meter
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.meter.packed.Add(int64(n))
	return n, err
}

func (c meteredConn) Write(p []byte) (int, error) {
	if at, ok := fetchLimitAt(p); ok {
		limit := min(int32(binary.BigEndian.Uint32(p[at:])), c.meter.next())
		p = bytes.Clone(p)
		binary.BigEndian.PutUint32(p[at:], uint32(limit))
	}
	return c.Conn.Write(p)
}

// fetchLimitAt finds, in what the client writes at once, where a request for
// records says how many bytes the answer may have: behind length, kind, version,
// correlation id, client id, and in it behind the replica and two limits more. What
// is no such request, or one of a version that is not known, stays as it is.
func fetchLimitAt(p []byte) (at int, ok bool) {
	const head, kind, first, flexible = 4 + 2 + 2 + 4, 1, 3, 12
	if len(p) < head+2 || int(binary.BigEndian.Uint32(p)) != len(p)-4 || binary.BigEndian.Uint16(p[4:]) != kind {
		return 0, false
	}
	version := binary.BigEndian.Uint16(p[6:])
	at = head + 2 + max(0, int(int16(binary.BigEndian.Uint16(p[head:]))))
	if version == flexible {
		if at >= len(p) || p[at] != 0 { // fields that the head may have, and never has
			return 0, false
		}
		at++
	}
	at += 12
	return at, version >= first && version <= flexible && at+4 <= len(p)
}

// meterOf is the meter of a partition's leader; nil if it has none.
func (s *Source) meterOf(id partitionID) *meter {
	leader, err := s.control.client.Leader(id.topic, id.partition)
	if err != nil {
		return nil
	}
	return s.meters.at(leader.Addr())
}

// setMeter says by which meter a partition is counted.
func (q *queue) setMeter(id partitionID, m *meter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.partitions[id]; p != nil && m != nil {
		p.meter = m
	}
}
