package kafka

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inboxd/inboxd/inbox"
)

type fakeFetcher struct{ paused map[string]map[int32]bool }

func (f *fakeFetcher) set(of map[string][]int32, paused bool) {
	for topic, partitions := range of {
		for _, p := range partitions {
			if f.paused[topic] == nil {
				f.paused[topic] = map[int32]bool{}
			}
			f.paused[topic][p] = paused
		}
	}
}

func (f *fakeFetcher) Pause(of map[string][]int32)  { f.set(of, true) }
func (f *fakeFetcher) Resume(of map[string][]int32) { f.set(of, false) }

var testLimits = limits{bufferBytes: 1 << 20, batchRecords: 10, batchBytes: 1 << 20, workers: 4}

// newTestQueue has partitions 0 to n-1 of the topic t.
func newTestQueue(l limits, n int32) (*queue, *fakeFetcher) {
	f := &fakeFetcher{paused: map[string]map[int32]bool{}}
	q := newQueue(l, f)
	for p := range n {
		q.add(partitionID{"t", p}, beginning{had: -1})
	}
	return q, f
}

// fill pushes n records of a size, numbered on.
func fill(q *queue, partition int32, n, size int) {
	p := q.partition(partitionID{"t", partition})
	for range n {
		q.push(p, []inbox.Record{{
			Value:  make([]byte, size),
			Source: inbox.Source{Topic: "t", Partition: partition, Offset: p.lastRead + 1},
		}})
	}
}

// counts are how many records of each partition are in a batch.
func (b *batch) counts() map[int32]int {
	n := map[int32]int{}
	for _, r := range b.records {
		n[r.Source.Partition]++
	}
	return n
}

// line is how many partitions are ready.
func (q *queue) line() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.ready)
}

func taken(t *testing.T, q *queue) *batch {
	t.Helper()
	b := &batch{}
	if !q.take(b) {
		t.Fatal("the queue is closed")
	}
	return b
}

func TestBatchIsSharedFairly(t *testing.T) {
	q, _ := newTestQueue(testLimits, 4)
	fill(q, 0, 100, 1)
	fill(q, 1, 1, 1)
	fill(q, 2, 3, 1)
	fill(q, 3, 50, 1)
	got := taken(t, q).counts()
	// 1 and 3 have less than their share of 10; the others divide the rest.
	if got[1] != 1 || got[2] != 3 || got[0] != 3 || got[3] != 3 {
		t.Errorf("counts %v", got)
	}
}

func TestLoneRecordGoesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := newTestQueue(testLimits, 2)
		got := make(chan *batch)
		go func() { got <- taken(t, q) }()
		synctest.Wait()
		began := time.Now()
		fill(q, 1, 1, 1)
		if b := <-got; len(b.records) != 1 || time.Since(began) != 0 {
			t.Errorf("%d records after %v", len(b.records), time.Since(began))
		}
	})
}

func TestTakesTurns(t *testing.T) {
	l := testLimits
	l.batchRecords = 1
	q, _ := newTestQueue(l, 3)
	for p := range int32(3) {
		fill(q, p, 50, 1)
	}
	var order []int32
	for range 9 {
		b := taken(t, q)
		order = append(order, b.records[0].Source.Partition)
		q.stored(b)
	}
	for i := range 3 {
		round := slices.Sorted(slices.Values(order[3*i : 3*i+3]))
		if !slices.Equal(round, []int32{0, 1, 2}) {
			t.Fatalf("turns %v", order)
		}
	}
}

func TestPartitionIsInOneBatchAtATime(t *testing.T) {
	q, _ := newTestQueue(testLimits, 1)
	fill(q, 0, 15, 1)
	first := taken(t, q)
	fill(q, 0, 15, 1)
	if q.line() != 0 {
		t.Fatal("a partition is in line while a worker has it")
	}
	q.stored(first)
	second := taken(t, q)
	if second.records[0].Source.Offset != 10 {
		t.Errorf("the second batch begins at %d", second.records[0].Source.Offset)
	}
}

func TestBytesBoundBatches(t *testing.T) {
	l := testLimits
	l.batchBytes = 1000
	q, _ := newTestQueue(l, 2)
	fill(q, 0, 1, 5000)
	fill(q, 1, 9, 200)
	if got := taken(t, q).counts(); got[0] != 1 || got[1] != 0 {
		t.Errorf("the first batch has %v", got) // alone, though larger than a batch
	}
	if got := taken(t, q).counts(); got[0] != 0 || got[1] != 2 {
		t.Errorf("the second batch has %v", got)
	}
}

func TestIdleWorkersShareTheLine(t *testing.T) {
	q, _ := newTestQueue(testLimits, 6)
	q.mu.Lock()
	q.idle = 2 // two others wait
	q.mu.Unlock()
	for p := range int32(6) {
		fill(q, p, 1, 1)
	}
	if got := len(taken(t, q).parts); got != 2 {
		t.Errorf("one of three workers took %d of 6 partitions", got)
	}
}

func TestFailingPartitionComesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := newTestQueue(testLimits, 3)
		for p := range int32(3) {
			fill(q, p, 2, 1)
		}
		first := taken(t, q)
		if len(first.parts) != 3 {
			t.Fatalf("%d partitions in the first batch", len(first.parts))
		}
		q.failed(first, errors.New("no"))
		fill(q, 0, 1, 1)
		if q.line() != 0 {
			t.Fatal("a partition that failed is in line at once")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for range 3 {
			b := taken(t, q)
			if len(b.parts) != 1 {
				t.Fatalf("a partition that failed comes with %d others", len(b.parts)-1)
			}
			q.failed(b, errors.New("no"))
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b := taken(t, q)
		if b.records[0].Source.Offset != 0 {
			t.Errorf("offset %d is tried before 0", b.records[0].Source.Offset)
		}
		if !q.stored(b) {
			t.Error("a recovery was not noticed")
		}
		q.close()
	})
}

func TestRecoveryEndsAllWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := newTestQueue(testLimits, 2)
		fill(q, 0, 1, 1)
		fill(q, 1, 1, 1)
		q.failed(taken(t, q), errors.New("no"))
		for range 10 { // until they wait for seconds
			time.Sleep(20 * time.Second)
			synctest.Wait()
			q.failed(taken(t, q), errors.New("no"))
			q.failed(taken(t, q), errors.New("no"))
		}
		for q.line() == 0 {
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		if q.line() != 1 {
			t.Fatal("both are ready; they were to be so at different times")
		}
		q.stored(taken(t, q))
		if q.line() != 1 {
			t.Error("a partition still waits after another one was stored")
		}
		q.close()
	})
}

func TestPauseAndResume(t *testing.T) {
	l := testLimits
	l.bufferBytes, l.batchRecords = 100_000, 5
	q, f := newTestQueue(l, 2)
	fill(q, 0, 49, 1000-160)
	if f.paused["t"][0] {
		t.Fatal("paused although there is room")
	}
	fill(q, 1, 2, 1000-160)
	if f.paused["t"][1] {
		t.Fatal("the small one was paused")
	}
	fill(q, 0, 1, 1000-160)
	if !f.paused["t"][0] {
		t.Fatal("not paused although half of the buffer is used")
	}
	for q.partition(partitionID{"t", 0}).paused {
		b := taken(t, q)
		q.stored(b)
	}
	if f.paused["t"][0] || q.bytes > 25_000 || q.bytes < 5_000 {
		t.Errorf("resumed %v with %d bytes", !f.paused["t"][0], q.bytes)
	}
}

func TestCloseWakesWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := newTestQueue(testLimits, 1)
		ended := make(chan bool)
		for range 3 {
			go func() { ended <- q.take(&batch{}) }()
		}
		synctest.Wait()
		q.close()
		q.close()
		for range 3 {
			if <-ended {
				t.Error("a batch came out of a closed queue")
			}
		}
		fill(q, 0, 1, 1)
		if q.bytes != 0 {
			t.Error("a closed queue took a record")
		}
	})
}
