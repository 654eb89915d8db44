package kafka

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/IBM/sarama"
)

// When the buffer is full, nothing is fetched; and when it is full of what cannot
// be stored, the others go on.
func TestFullBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := testLimits
		l.bufferBytes, l.batchRecords = 100_000, 200
		q, f := newTestQueue(l, 4)
		fill(q, 0, 51, 1000-160)
		fill(q, 1, 50, 1000-160)
		for p := range int32(4) {
			if !f.paused["t"][p] {
				t.Fatalf("partition %d is fetched although the buffer is full", p)
			}
		}
		both := taken(t, q)
		fill(q, 2, 1, 1) // what was on its way
		third := taken(t, q)
		q.failed(both, errors.New("no"))
		if len(third.records) != 1 || third.records[0].Source.Partition != 2 {
			t.Fatalf("got %v", third.counts())
		}
		q.stored(third)
		if f.paused["t"][2] || f.paused["t"][3] {
			t.Error("partitions without records wait for those that cannot be stored")
		}
		if !f.paused["t"][0] || !f.paused["t"][1] {
			t.Error("what cannot be stored is fetched further")
		}
		fill(q, 3, 1, 1)
		if !f.paused["t"][2] || !f.paused["t"][3] {
			t.Error("the buffer is still full, and fetching went on")
		}
		q.close()
	})
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
