package kafka_test

import (
	"math/rand/v2"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

// transactional is a producer of transactions.
type transactional struct {
	*kgo.Client
	bench *bench
	topic string
}

func (b *bench) transactional(topic string) transactional {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.world.addrs...), kgo.TransactionalID(b.group),
		kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	b.check(err)
	b.Cleanup(client.Close)
	return transactional{client, b, topic}
}

// write makes one transaction with n records in each partition.
func (tx transactional) write(partitions int32, n int, end kgo.TransactionEndTry) {
	b := tx.bench
	b.Helper()
	value := "committed"
	if end == kgo.TryAbort {
		value = "aborted"
	}
	b.check(tx.BeginTransaction())
	for p := range partitions {
		for range n {
			tx.Produce(b.ctx, &kgo.Record{Partition: p, Value: []byte(value)}, nil)
		}
	}
	b.check(tx.Flush(b.ctx))
	b.check(tx.EndTransaction(b.ctx, end))
}

// Aborted records never reach the sink, and the offsets of the marks that end
// transactions are passed.
func testTransactions(b *bench) {
	topic := b.topic("t", 2)
	tx := b.transactional(topic)
	sink := newMemory()
	sink.gaps = true
	c := b.start(b.config(topic), sink)
	for i := range 10 {
		tx.write(2, 10, i%2 == 0)
	}
	for p := range int32(2) {
		b.produce(topic, p, 1, "last")
		sink.awaitCount(b, topic, p, 51)
		b.awaitCommit(topic, p, 111) // the marks have offsets too
	}
	b.verifyLog(sink, topic, 2)
	sink.verifyOnce(b)
	for _, r := range sink.of(topic, 0) {
		if string(r.Value) == "aborted" {
			b.Fatalf("the aborted record at %d was stored", r.Source.Offset)
		}
	}
	c.stop()
}

// After everything was read, retention deletes the topic's records, and with
// them the mark at the end of the last transaction. Nothing that could be read
// is missing, so nothing is stopped.
func testTransactionEndDeleted(b *bench) {
	topic := b.topic("t", 1)
	tx := b.transactional(topic)
	sink := newMemory()
	sink.gaps = true
	c := b.start(b.config(topic), sink)
	tx.write(1, 10, kgo.TryCommit)
	tx.write(1, 10, kgo.TryAbort)
	sink.awaitCount(b, topic, 0, 10)
	const end = 22 // two marks; the broker writes that of an abort when it has answered
	b.eventually("the second transaction has ended", func() bool { return b.offsets(topic, 1, -1)[0] == end })
	b.awaitCommit(topic, 0, end)
	if p, _ := c.partition(topic, 0); p.Lag != 0 {
		b.Errorf("after the last record the lag is %d", p.Lag)
	}
	c.stop()
	b.deleteRecords(topic, 0, end)

	b.start(b.config(topic), sink)
	b.produce(topic, 0, 5, "v")
	sink.awaitCount(b, topic, 0, 15)
	sink.verifyOnce(b)
	if strings.Contains(b.log.String(), "level=ERROR") {
		b.Errorf("what was read to its end was taken for lost:\n%s", b.log)
	}
}

// However much was aborted at the end of a partition, lag is soon gone.
func testLongAborted(b *bench) {
	topic := b.topic("t", 1)
	tx := b.transactional(topic)
	const n, size = 60, 100_000 // more than one look at the log shows
	value := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(value)
	for range n {
		b.check(tx.BeginTransaction())
		tx.Produce(b.ctx, &kgo.Record{Value: value}, nil)
		b.check(tx.Flush(b.ctx))
		b.check(tx.EndTransaction(b.ctx, kgo.TryAbort))
	}
	b.eventually("the last transaction has ended", func() bool { return b.offsets(topic, 1, -1)[0] == 2*n })
	cfg := b.config(topic)
	cfg.TopicRefresh = 3 * patience / n // at each of them a transaction or two would take too long
	c := b.start(cfg, newMemory())
	b.awaitCommit(topic, 0, 2*n)
	c.stop()
}
