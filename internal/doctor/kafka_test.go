package doctor_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/broker"
	"github.com/inboxd/inboxd/internal/doctor"
)

// commit sets an offset of the group by hand.
func (w *ward) commit(address, topic string, partition int32, offset int64, metadata string) {
	w.Helper()
	versions := kversion.Stable() // with names instead of topic ids
	versions.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 8)
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.MaxVersions(versions))
	must(w.T, err)
	defer client.Close()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, &metadata
	of := kmsg.NewOffsetCommitRequestTopic()
	of.Topic, of.Partitions = topic, append(of.Partitions, p)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.Topics = w.Config.Kafka.Group, -1, append(req.Topics, of)
	resp, err := req.RequestWith(w.Context(), client)
	must(w.T, err)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		w.Fatalf("commit: error %d", code)
	}
}

func TestKafka(t *testing.T) {
	t.Parallel()
	b, err := broker.Start(broker.Config{Topics: map[string]int32{"orders": 2, "other": 1}})
	must(t, err)
	t.Cleanup(b.Close)
	w := admit(t)
	k := &w.Config.Kafka
	look := func() (brokers, topics, group doctor.Result) {
		t.Helper()
		r := doctor.Examine(t.Context(), w.Options).Results
		r = r[len(r)-3:]
		if r[0].Check != "kafka brokers" {
			t.Fatalf("%+v", r)
		}
		return r[0], r[1], r[2]
	}
	k.Brokers, k.Topics = []string{b.Addr()}, []string{"orders"}
	brokers, topics, group := look()
	judge(t, brokers, doctor.OK, "1 broker, reached by "+b.Addr(), "")
	judge(t, topics, doctor.OK, "1 topic with 2 partitions", "")
	judge(t, group, doctor.Warning, "shop-inbox is new with 0 members, 0 behind, 2 partitions not read yet; nobody reads", "inboxd serve")

	p, err := broker.NewProducer(b.Addr())
	must(t, err)
	t.Cleanup(p.Close)
	for range 5 {
		must(t, p.Produce(t.Context(), &inbox.Record{Value: []byte("v"), Source: inbox.Source{Topic: "orders"}}))
	}
	w.commit(b.Addr(), "orders", 0, 2, "")
	w.commit(b.Addr(), "orders", 1, 0, "")
	_, _, group = look()
	judge(t, group, doctor.Warning, "3 behind; nobody reads", "inboxd serve")
	w.commit(b.Addr(), "orders", 0, 5, "")
	_, _, group = look()
	judge(t, group, doctor.OK, "shop-inbox is empty with 0 members, 0 behind", "")
	w.commit(b.Addr(), "orders", 1, 99, "inboxd stopped")
	_, _, group = look()
	judge(t, group, doctor.Failed, "is not in the log, and is not read on from by itself: orders/1", "inboxd sources reset --topic orders --partition 1 --to oldest")

	k.Topics = []string{"orders", "missing"}
	_, topics, _ = look()
	judge(t, topics, doctor.Failed, "missing cannot be read: ", "kafka-topics.sh --bootstrap-server "+b.Addr()+" --create --topic missing")
	k.Topics = []string{"orders", "^parcels"}
	_, topics, _ = look()
	judge(t, topics, doctor.Failed, "^parcels cannot be read: no topic matches it", "kafka-topics.sh --bootstrap-server "+b.Addr()+" --list")

	k.Brokers = []string{"127.0.0.1:1"}
	r := doctor.Examine(t.Context(), w.Options).Results
	judge(t, r[len(r)-1], doctor.Failed, "no broker of 127.0.0.1:1 answers", "inboxd config print")
}
