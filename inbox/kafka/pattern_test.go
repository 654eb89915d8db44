package kafka_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

// reading are the topics that a source has partitions of.
func (c *consumer) reading() []string {
	var topics []string
	for _, p := range c.Stats().Partitions {
		topics = append(topics, p.Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

func (c *consumer) awaitTopics(want ...string) {
	c.bench.Helper()
	slices.Sort(want)
	c.bench.eventually("it reads "+strings.Join(want, ", "), func() bool { return slices.Equal(c.reading(), want) })
}

// Topics by pattern: those that match wholly, but Kafka's own; those that come
// later, from their first record on, whatever the start; those that go are let go.
func TestTopicsByPattern(t *testing.T) {
	t.Parallel()
	fake, w := fake(t, broker.Config{
		Topics:  map[string]int32{"shop.orders": 1, "shop.orders.dead": 1, "my.shop.orders": 1, "__shop": 1, "named": 1},
		Options: []kfake.Opt{kfake.DefaultNumPartitions(1)},
	})
	b := newBench(t, w)
	sink := newMemory()
	cfg := b.config(`^(__)?shop(\.\w+)?`, "named", "shop.orders")
	cfg.Start = kafka.Newest
	c := b.start(cfg, sink)
	c.awaitTopics("named", "shop.orders")
	b.produce("shop.orders", 0, 3, "v")
	sink.awaitCount(b, "shop.orders", 0, 3)

	b.create("shop.parcels", 2)
	b.produce("shop.parcels", 1, 5, "v")
	c.awaitTopics("named", "shop.orders", "shop.parcels")
	sink.awaitCount(b, "shop.parcels", 1, 5)
	b.produce("shop.orders", 0, 3, "v")
	sink.awaitCount(b, "shop.orders", 0, 6)

	b.deleteTopic("shop.parcels")
	c.awaitTopics("named", "shop.orders")
	if missing := c.Stats().Missing; len(missing) != 0 {
		t.Errorf("a topic that a pattern had found is missed: %v", missing)
	}
	b.create("shop.parcels", 1)
	b.produce("shop.parcels", 0, 4, "w")
	c.awaitTopics("named", "shop.orders", "shop.parcels")
	sink.awaitCount(b, "shop.parcels", 0, 4)
	c.stop()
	if fake.Cluster().TopicInfo("__shop") == nil {
		t.Fatal("the topic that looks like one of Kafka's own is not there")
	}
}

// A pattern without a topic is said to have none, and waits for one.
func TestPatternWithoutTopics(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	b := newBench(t, w)
	sink := newMemory()
	c := b.start(b.config("^shop-[0-9]+", "^audit"), sink)
	b.eventually("the log says so", func() bool { return strings.Contains(b.log.String(), "no topic matches it") })
	if got := c.Stats().Missing["^shop-[0-9]+"]; got != "no topic matches it" {
		t.Errorf("the stats say %q", got)
	}
	b.create("shop-7", 1)
	b.produce("shop-7", 0, 2, "v")
	sink.awaitCount(b, "shop-7", 0, 2)
	if missing := c.Stats().Missing; len(missing) != 1 || missing["^audit"] == "" {
		t.Errorf("missing: %v", missing)
	}
}

func TestPatternErrors(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"^a(", "^a)|(b", "^[z-a]"} {
		_, err := kafka.New(kafka.Config{Brokers: []string{"b:9092"}, Group: "g", Topics: []string{bad}}, newMemory())
		if err == nil || !strings.Contains(err.Error(), "begins with ^ and is no regular expression") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
