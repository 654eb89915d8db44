package kafka

import (
	"testing"

	"github.com/IBM/sarama"
)

// stretch is a batch at an offset, of so many offsets, by a producer.
type stretch struct {
	first, n int64
	producer int64
	kind     string // data, plain (outside of transactions), hollow, commit, abort, partial
}

func (s stretch) batch() *sarama.Records {
	b := &sarama.RecordBatch{
		FirstOffset: s.first, LastOffsetDelta: int32(s.n - 1), ProducerID: s.producer, IsTransactional: s.kind != "plain",
		Control: s.kind == "commit" || s.kind == "abort", PartialTrailingRecord: s.kind == "partial",
	}
	key := []byte{0, 0, 0, 0}
	if s.kind == "commit" {
		key[3] = 1
	}
	for i := range s.n {
		b.Records = append(b.Records, &sarama.Record{OffsetDelta: i, Key: key})
	}
	if s.kind == "hollow" {
		b.Records = nil
	}
	return &sarama.Records{RecordBatch: b}
}

func TestEmptyBatches(t *testing.T) {
	for name, tt := range map[string]struct {
		from, want int64
		aborted    []*sarama.AbortedTransaction
		batches    []stretch
	}{
		"nothing":                        {5, 5, nil, nil},
		"the mark of a commit":           {5, 6, nil, []stretch{{5, 1, 1, "commit"}}},
		"records before the offset":      {5, 6, nil, []stretch{{0, 5, 1, "data"}, {5, 1, 1, "commit"}}},
		"a record at the offset":         {5, 5, nil, []stretch{{0, 6, 1, "data"}, {6, 1, 1, "commit"}}},
		"a record behind a mark":         {5, 6, nil, []stretch{{5, 1, 1, "commit"}, {6, 1, 0, "plain"}}},
		"what was aborted":               {5, 9, []*sarama.AbortedTransaction{{ProducerID: 1, FirstOffset: 5}}, []stretch{{5, 3, 1, "data"}, {8, 1, 1, "abort"}}},
		"what was aborted, from within":  {7, 9, []*sarama.AbortedTransaction{{ProducerID: 1, FirstOffset: 5}}, []stretch{{5, 3, 1, "data"}, {8, 1, 1, "abort"}}},
		"committed after an abort":       {5, 7, []*sarama.AbortedTransaction{{ProducerID: 1, FirstOffset: 5}}, []stretch{{5, 1, 1, "data"}, {6, 1, 1, "abort"}, {7, 1, 1, "data"}, {8, 1, 1, "commit"}}},
		"another producer's transaction": {5, 6, []*sarama.AbortedTransaction{{ProducerID: 1, FirstOffset: 5}}, []stretch{{5, 1, 1, "data"}, {6, 1, 2, "data"}}},
		"aborted later":                  {5, 5, []*sarama.AbortedTransaction{{ProducerID: 1, FirstOffset: 7}}, []stretch{{5, 1, 1, "data"}, {6, 1, 1, "commit"}, {7, 1, 1, "data"}}},
		"two aborts, in any order": {5, 9, []*sarama.AbortedTransaction{{ProducerID: 2, FirstOffset: 6}, {ProducerID: 1, FirstOffset: 5}},
			[]stretch{{5, 1, 1, "data"}, {6, 1, 2, "data"}, {7, 1, 1, "abort"}, {8, 1, 2, "abort"}}},
		"no transaction, its producer's was aborted": {5, 6, []*sarama.AbortedTransaction{{ProducerID: 1, FirstOffset: 5}}, []stretch{{5, 1, 1, "data"}, {6, 1, 1, "plain"}}},
		"emptied by compaction":                      {5, 8, nil, []stretch{{5, 3, 1, "hollow"}}},
		"a gap before the first batch":               {5, 10, nil, []stretch{{9, 1, 1, "commit"}}},
		"cut off":                                    {5, 6, nil, []stretch{{5, 1, 1, "commit"}, {6, 1, 1, "partial"}}},
	} {
		block := &sarama.FetchResponseBlock{AbortedTransactions: tt.aborted}
		for _, s := range tt.batches {
			block.RecordsSet = append(block.RecordsSet, s.batch())
		}
		if got := emptyBatches(block, tt.from); got != tt.want {
			t.Errorf("%s: from %d up to %d instead of %d", name, tt.from, got, tt.want)
		}
	}
}
