package kafka_test

import (
	"testing"
	"time"

	"github.com/inboxd/inboxd/internal/broker"
)

// stopsWithin stops a source and measures it.
func (c *consumer) stopsWithin(limit time.Duration) {
	c.bench.Helper()
	began := time.Now()
	c.stop()
	took := time.Since(began)
	if took > limit {
		c.bench.Errorf("the stop took %v", took)
	}
	c.bench.Logf("the stop took %v", took)
}

func testStopFrozen(b *bench) {
	topic := b.topic("t", 1)
	sink := newMemory()
	cfg := b.config(topic)
	cfg.LeaveTimeout = 200 * time.Millisecond
	c := b.start(cfg, sink)
	b.produce(topic, 0, 5, "v")
	sink.awaitCount(b, topic, 0, 5)
	b.world.freeze()
	defer b.world.thaw()
	c.stopsWithin(5 * time.Second)
}

// The broker hangs before the group is joined.
func TestStopBeforeTheBrokerAnswers(t *testing.T) {
	fake, w := fake(t, broker.Config{Topics: map[string]int32{"t": 1}})
	b := newBench(t, w)
	fake.Freeze()
	cfg := b.config("t")
	cfg.LeaveTimeout = 200 * time.Millisecond
	c := b.start(cfg, newMemory())
	c.stopsWithin(5 * time.Second)
}

func TestStopWithoutBroker(t *testing.T) {
	b := newBench(t, world{addrs: []string{"127.0.0.1:1"}})
	c := b.start(b.config("t"), newMemory())
	b.eventually("the broker is missed", func() bool { return c.Stats().LastError != "" })
	c.stopsWithin(5 * time.Second)
}

func TestRunTwice(t *testing.T) {
	b := newBench(t, world{addrs: []string{"127.0.0.1:1"}})
	c := b.start(b.config("t"), newMemory())
	c.stop()
	if err := c.Run(b.ctx); err == nil {
		t.Error("Run ran twice")
	}
}
