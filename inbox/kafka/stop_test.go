package kafka_test

import (
	"testing"
	"time"

	"github.com/inboxd/inboxd/internal/broker"
)

// stopLimit is less than the group's client waits for an answer of a broker, and
// much more than a stop takes that waits for none.
const stopLimit = 9 * time.Second

// stopsSoon stops a source and measures it.
func (c *consumer) stopsSoon() {
	c.bench.Helper()
	began := time.Now()
	c.stop()
	took := time.Since(began)
	if took > stopLimit {
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
	c.stopsSoon()
}

// The broker hangs before the group is joined.
func TestStopBeforeTheBrokerAnswers(t *testing.T) {
	fake, w := fake(t, broker.Config{Topics: map[string]int32{"t": 1}})
	b := newBench(t, w)
	fake.Freeze()
	cfg := b.config("t")
	cfg.LeaveTimeout = 200 * time.Millisecond
	c := b.start(cfg, newMemory())
	c.stopsSoon()
}

func TestStopWithoutBroker(t *testing.T) {
	b := newBench(t, world{addrs: []string{"127.0.0.1:1"}})
	c := b.start(b.config("t"), newMemory())
	b.eventually("the broker is missed", func() bool { return c.Stats().LastError != "" })
	c.stopsSoon()
}

func TestRunTwice(t *testing.T) {
	b := newBench(t, world{addrs: []string{"127.0.0.1:1"}})
	c := b.start(b.config("t"), newMemory())
	c.stop()
	if err := c.Run(b.ctx); err == nil {
		t.Error("Run ran twice")
	}
}
