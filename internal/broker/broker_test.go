package broker_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, cfg broker.Config) *broker.Broker {
	t.Helper()
	b, err := broker.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func producer(t *testing.T, b *broker.Broker) *broker.Producer {
	t.Helper()
	p, err := broker.NewProducer(b.Addrs()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func record(topic, value string, partition int32) *inbox.Record {
	return &inbox.Record{
		Key: []byte("k"), Value: []byte(value),
		Headers: []inbox.Header{{Name: "h", Value: []byte{0, 1}}, {Name: "h"}},
		Source:  inbox.Source{Topic: topic, Partition: partition},
	}
}

// consume reads n records of a topic's partition 0 from its beginning.
func consume(t *testing.T, b *broker.Broker, topic string, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.ConsumePartitions(
		map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var got []*kgo.Record
	for len(got) < n {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		got = append(got, fetches.Records()...)
	}
	return got
}

func TestRecordsArriveAsTheyWere(t *testing.T) {
	b := start(t, broker.Config{Topics: map[string]int32{"orders": 2}})
	p := producer(t, b)
	r := record("orders", "one", 0)
	if err := p.Produce(t.Context(), r, record("orders", "elsewhere", 1), record("orders", "two", 0)); err != nil {
		t.Fatal(err)
	}
	got := consume(t, b, "orders", 2)
	if string(got[0].Value) != "one" || string(got[1].Value) != "two" {
		t.Fatalf("got %q and %q", got[0].Value, got[1].Value)
	}
	h := got[0].Headers
	if len(h) != 2 || h[0].Key != "h" || string(h[0].Value) != "\x00\x01" || h[1].Value != nil {
		t.Fatalf("headers %v", h)
	}
}

func TestSameKeySamePartition(t *testing.T) {
	b := start(t, broker.Config{Topics: map[string]int32{"orders": 8}})
	p := producer(t, b)
	first := record("orders", "a", broker.ByKey)
	second := record("orders", "b", broker.ByKey)
	if err := p.Produce(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := p.Produce(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if first.Source.Partition != second.Source.Partition || second.Source.Offset != 1 {
		t.Fatalf("went to %v and %v", first.Source, second.Source)
	}
}

func TestDirectoryOutlivesTheBroker(t *testing.T) {
	dir := t.TempDir()
	b := start(t, broker.Config{Dir: dir, Topics: map[string]int32{"orders": 1}})
	if err := producer(t, b).Produce(t.Context(), record("orders", "kept", 0)); err != nil {
		t.Fatal(err)
	}
	b.Close()

	b = start(t, broker.Config{Dir: dir, Topics: map[string]int32{"orders": 5, "payments": 1}})
	if got := consume(t, b, "orders", 1); string(got[0].Value) != "kept" {
		t.Fatalf("got %q", got[0].Value)
	}
	if n := len(b.Cluster().PartitionInfos("orders")); n != 1 {
		t.Fatalf("orders has %d partitions after the second start", n)
	}
	if b.Cluster().TopicInfo("payments") == nil {
		t.Fatal("the second start did not make the topic that was missing")
	}
}

func TestLoopbackOnly(t *testing.T) {
	b := start(t, broker.Config{Ports: []int{0, 0}})
	if strings.Count(b.Addr(), ",") != 1 {
		t.Fatalf("two brokers, but the address is %q", b.Addr())
	}
	for _, addr := range b.Addrs() {
		host, _, err := net.SplitHostPort(addr)
		if err != nil || !net.ParseIP(host).IsLoopback() {
			t.Fatalf("listens on %q (%v)", addr, err)
		}
	}
}

func TestTakenPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = broker.Start(broker.Config{Ports: []int{l.Addr().(*net.TCPAddr).Port}})
	if err == nil || !strings.Contains(err.Error(), "start embedded broker") {
		t.Fatalf("err = %v", err)
	}
}

func TestFreezeHoldsBackAnswers(t *testing.T) {
	b := start(t, broker.Config{Topics: map[string]int32{"orders": 1}})
	p := producer(t, b)
	if err := p.Produce(t.Context(), record("orders", "before", 0)); err != nil {
		t.Fatal(err)
	}
	b.Freeze()
	done := make(chan error, 1)
	go func() { done <- p.Produce(t.Context(), record("orders", "during", 0)) }()
	select {
	case err := <-done:
		t.Fatalf("a frozen broker answered (%v)", err)
	case <-time.After(100 * time.Millisecond):
	}
	b.Thaw()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	consume(t, b, "orders", 2)
}
