package kafka

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/IBM/sarama"
)

// When the buffer is full, nothing more is fetched of partitions that hold
// something. The others go on: it may be full of what cannot be stored.
func TestFullBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits
		l.bufferBytes, l.batchRecords = 100_000, 200
		q, f := newTestQueue(l, 4)
		fill(q, 0, 51, 1000-160)
		fill(q, 1, 11, 1000-160)
		fill(q, 2, 10, 1000-160)
		if !f.paused["t"][0] || f.paused["t"][1] || f.paused["t"][2] {
			t.Fatalf("with 72 of 100 used, those with 51, 11, 10 are paused: %v", f.paused["t"])
		}
		fill(q, 1, 30, 1000-160) // now it is full
		for p := range int32(4) {
			if f.paused["t"][p] != (p < 3) {
				t.Fatalf("paused are %v; 0 to 2 hold records", f.paused["t"])
			}
		}
		stuck := taken(t, q)
		q.failed(stuck, errors.New("no"))
		for range 3 { // the one that has none goes on, however full it is
			fill(q, 3, 1, 1)
			if !f.paused["t"][3] {
				t.Fatal("the buffer is full, and a partition that holds something is fetched")
			}
			q.stored(taken(t, q))
			if f.paused["t"][3] || !f.paused["t"][0] || !f.paused["t"][1] || !f.paused["t"][2] {
				t.Fatalf("paused are %v", f.paused["t"])
			}
		}
		q.close()
	})
}

// Many partitions with a large record each: when the buffer is used up, not even
// those are fetched that hold nothing, until there is room again. But one record
// larger than all of it does not hold up the others.
func TestFullBufferOfLargeRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits
		l.bufferBytes, l.batchRecords, l.batchBytes = 100_000, 1, 1000
		q, f := newTestQueue(l, 10)
		for p := range int32(4) { // each is paused as it holds something, and three fit
			fill(q, p, 1, 30_000)
			if f.paused["t"][9] != (p == 3) {
				t.Fatalf("with %d bytes held, paused are %v", q.bytes, f.paused["t"])
			}
		}
		fill(q, 4, 1, 30_000) // it was on its way
		q.stored(taken(t, q))
		if !f.paused["t"][9] {
			t.Errorf("with %d bytes held, a partition is fetched anew", q.bytes)
		}
		q.stored(taken(t, q))
		if f.paused["t"][9] {
			t.Errorf("with %d bytes held, a partition that holds nothing is not fetched", q.bytes)
		}
		q.close()

		q, f = newTestQueue(l, 10)
		fill(q, 0, 1, 500_000)
		q.failed(taken(t, q), errors.New("no"))
		fill(q, 1, 1, 50_000)
		if f.paused["t"][9] {
			t.Error("a record that is larger than the buffer holds up the others")
		}
		fill(q, 2, 1, 500_000)
		if !f.paused["t"][9] {
			t.Error("there is no end to what is held")
		}
		q.close()
	})
}

// What partitions without records may bring is kept free, but not at any price.
func TestRoom(t *testing.T) {
	l := testLimits
	l.bufferBytes, l.reserve = 90_000, 10_000
	for n, want := range map[int32]int{1: 80_000, 5: 40_000, 6: 30_000, 100: 30_000} {
		if q, _ := newTestQueue(l, n); q.room() != want {
			t.Errorf("with %d partitions there is room for %d", n, q.room())
		}
	}
	for _, bound := range []int{1 << 20, 64 << 20, 4 << 30} {
		l := Config{BufferBytes: bound}.withDefaults().limits()
		if fetches := 2 * int(Config{BufferBytes: bound}.fetchBytes()); l.bufferBytes+fetches > bound+bound/2 || l.batchBytes > bound/8 {
			t.Errorf("of %d, %d are for records, %d for fetches, %d for a batch", bound, l.bufferBytes, fetches, l.batchBytes)
		}
	}
}

// A record must not keep in memory what came with it.
func TestRecordsAreCopies(t *testing.T) {
	answer := []byte("keyvalueheader")
	m := &sarama.ConsumerMessage{
		Key: answer[:3], Value: answer[3:8], Topic: "t",
		Headers: []*sarama.RecordHeader{{Key: []byte("h"), Value: answer[8:]}, {Key: []byte("n")}, {Key: []byte("e"), Value: []byte{}}},
	}
	r := toRecord(m)
	clear(answer)
	if string(r.Key) != "key" || string(r.Value) != "value" || string(r.Headers[0].Value) != "header" {
		t.Errorf("got %q, %q, %q", r.Key, r.Value, r.Headers[0].Value)
	}
	if r.Headers[1].Value != nil || r.Headers[2].Value == nil {
		t.Error("nil and empty are not kept apart")
	}
	if r := toRecord(&sarama.ConsumerMessage{Value: []byte{}}); r.Key != nil || r.Value == nil {
		t.Error("nil and empty are not kept apart")
	}
}
