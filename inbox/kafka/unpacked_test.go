package kafka

import (
	"encoding/binary"
	"math"
	"net"
	"testing"
)

// answer is what a broker sends of a log whose batches are so large, and as much
// again unpacked as factor says: whole batches, one at least.
func answer(limit int32, batch int, factor float64) (packed, unpacked int) {
	packed = max(1, int(limit)/batch) * batch
	return packed, int(float64(packed) * factor)
}

// However records are compressed, an answer is small to begin with, grows as far as
// the client allows it, and is never much more than the target once unpacked,
// unless one batch is.
func TestAnswersAreBounded(t *testing.T) {
	cfg := Config{BufferBytes: 64 << 20}
	for _, batch := range []int{200, 1300, 16_000, 900_000} {
		for _, factor := range []float64{1.2, 10, 1000, 4000} {
			for _, lag := range []int{0, 1} { // answers until what was unpacked is counted
				m := newMeters(cfg).at("b:9092")
				target, most, last := cfg.unpackedBytes(), 0, 0
				var late []int
				for range 60 {
					packed, unpacked := answer(m.next(), batch, factor)
					last, most = unpacked, max(most, unpacked)
					m.packed.Add(int64(packed))
					if late = append(late, unpacked); len(late) > lag {
						m.unpacked.Add(int64(late[0]))
						late = late[1:]
					}
				}
				one := int(float64(batch) * factor)
				if bound := max((2+lag)*target, 2*one); most > bound {
					t.Errorf("batches of %d, factor %v, lag %d: an answer was %d bytes, with a target of %d", batch, factor, lag, most, target)
				}
				if enough := min(target/2, int(float64(cfg.fetchBytes()/2)*factor)); last < enough {
					t.Errorf("batches of %d, factor %v, lag %d: an answer is only %d bytes", batch, factor, lag, last)
				}
			}
		}
	}
}

// A ratio is kept for a while, counts for all brokers, and is forgotten.
func TestRatioIsForgotten(t *testing.T) {
	all := newMeters(Config{BufferBytes: 64 << 20})
	one, other := all.at("a:1"), all.at("b:1")
	feed := func(m *meter, n int, factor float64) (limit int32) {
		for range n {
			packed, unpacked := answer(m.next(), 1000, factor)
			m.packed.Add(int64(packed))
			m.unpacked.Add(int64(unpacked))
		}
		return m.next()
	}
	if got := feed(other, 20, 1); got != all.most {
		t.Errorf("of plain records %d bytes are asked for, not %d", got, all.most)
	}
	feed(one, 1, 1000)
	one.next()
	if got := other.next(); int(got) > all.target/200 {
		t.Errorf("the other broker is still asked for %d", got)
	}
	feed(one, 300, 1)
	if got := feed(other, 300, 1); got != all.most {
		t.Errorf("long after, %d bytes are asked for", got)
	}
	for range 20 { // nothing comes for a while
		other.next()
	}
	if got := other.next(); got > 10 { // less than any batch
		t.Errorf("after idleness %d bytes are asked for at first", got)
	}
}

// What is no request for records is sent as it is.
func TestOtherRequestsStayAsTheyAre(t *testing.T) {
	request := func(kind, version uint16, client string, rest ...byte) []byte {
		p := binary.BigEndian.AppendUint16(nil, kind)
		p = binary.BigEndian.AppendUint16(p, version)
		p = append(p, 0, 0, 0, 7)
		p = binary.BigEndian.AppendUint16(p, uint16(len(client)))
		p = append(append(p, client...), rest...)
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)
	}
	body := make([]byte, 30)
	for name, p := range map[string][]byte{
		"nothing": nil, "cut": request(1, 11, "inboxd"), "another kind": request(3, 11, "inboxd", body...),
		"too old": request(1, 2, "inboxd", body...), "too new": request(1, 13, "inboxd", body...),
		"a part": request(1, 11, "inboxd", body...)[:20], "fields in the head": request(1, 12, "inboxd", append([]byte{1}, body...)...),
	} {
		if at, ok := fetchLimitAt(p); ok {
			t.Errorf("%s: taken for a request for records, with a limit at %d", name, at)
		}
	}
	for version, at := range map[uint16]int{3: 32, 11: 32, 12: 33} {
		if got, ok := fetchLimitAt(request(1, version, "inboxd", body...)); !ok || got != at {
			t.Errorf("version %d: the limit is at %d, not at %d (%v)", version, got, at, ok)
		}
	}
}

// A write must leave what it is given as it is.
func TestMeteredWrite(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	p := make([]byte, 60)
	binary.BigEndian.PutUint32(p, 56)
	p[5], p[7] = 1, 11
	binary.BigEndian.PutUint32(p[26:], math.MaxInt32)
	go func() {
		_, _ = meteredConn{here, newMeters(Config{BufferBytes: 64 << 20}).at("b")}.Write(p)
	}()
	sent := make([]byte, 60)
	if _, err := there.Read(sent); err != nil {
		t.Fatal(err)
	}
	if got := binary.BigEndian.Uint32(sent[26:]); got != firstFetch || binary.BigEndian.Uint32(p[26:]) != math.MaxInt32 {
		t.Errorf("%d bytes are asked for, and the request was changed to %d", got, binary.BigEndian.Uint32(p[26:]))
	}
}
