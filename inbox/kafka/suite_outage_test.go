package kafka_test

import (
	"testing"
	"time"
)

// outages is what a source must stand of a whole cluster that goes away and
// comes back. It harms every other test on the same cluster.
func outages(t *testing.T, w world) {
	for _, tt := range []struct {
		name string
		run  func(*bench)
	}{
		{"killed under load", testKilledUnderLoad},
		{"frozen under load", testFrozenUnderLoad},
		{"thaw", testThaw},
		{"stop frozen", testStopFrozen},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(newBench(t, w)) })
	}
}

// The broker is killed and comes back with its data, twice, while records are
// written and two members read.
func testKilledUnderLoad(b *bench) {
	topic := b.topic("t", 4)
	sink := newMemory()
	members := []*consumer{b.start(b.config(topic), sink), b.start(b.config(topic), sink)}
	load := b.load(topic, 4)
	for range 2 {
		load.awaitMore(sink, 400)
		b.world.kill()
		b.world.restart()
	}
	load.awaitMore(sink, 400)
	load.verify(sink, 4)
	b.awaitAllCommitted(topic, 4)
	for _, m := range members {
		m.stop()
	}
}

// The broker hangs, as a machine does that has no time for it, for longer than
// the session of a member lasts.
func testFrozenUnderLoad(b *bench) {
	topic := b.topic("t", 4)
	sink := newMemory()
	cfg := b.config(topic)
	cfg.SessionTimeout = shortSession
	members := []*consumer{b.start(cfg, sink), b.start(cfg, sink)}
	load := b.load(topic, 4)
	load.awaitMore(sink, 400)
	b.world.freeze()
	time.Sleep(b.world.frozen) // it is the time that is tested
	b.world.thaw()
	load.awaitMore(sink, 400)
	load.verify(sink, 4)
	b.awaitAllCommitted(topic, 4)
	for _, m := range members {
		m.stop()
	}
}

// awaitAllCommitted waits until the group has read a topic to its ends.
func (b *bench) awaitAllCommitted(topic string, partitions int32) {
	b.Helper()
	for p, end := range b.offsets(topic, partitions, -1) {
		b.awaitCommit(topic, p, end)
	}
}

// The leaders of all partitions move to other brokers again and again.
func testLeadersMove(b *bench) {
	topic := b.group + ".t"
	b.createReplicated(topic, 6, 3)
	sink := newMemory()
	members := []*consumer{b.start(b.config(topic), sink), b.start(b.config(topic), sink)}
	load := b.load(topic, 6)
	for range 5 {
		load.awaitMore(sink, 600)
		b.world.move(b, topic)
	}
	load.awaitMore(sink, 600)
	load.verify(sink, 6)
	b.awaitAllCommitted(topic, 6)
	for _, m := range members {
		m.stop()
	}
}
