package kafka_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/inboxd/inboxd/inbox/kafka"
)

// consumer is a running source.
type consumer struct {
	*kafka.Source
	bench  *bench
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // after ended
}

// shortSession is for tests in which a member is missed, and which do not mind if
// it is missed because the machine is busy.
const shortSession = 1500 * time.Millisecond

// config is for tests: everything that is waited for is short, but for the session.
// A member that is missed by mistake reads again what others have read, and that
// must not hang on how busy the machine is.
func (b *bench) config(topics ...string) kafka.Config {
	cfg := kafka.Config{
		Brokers: b.world.addrs, Group: b.group, Topics: topics,
		CommitInterval: 10 * time.Millisecond, TopicRefresh: 200 * time.Millisecond,
		SessionTimeout: 10 * time.Second, Heartbeat: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if b.world.secure != nil {
		b.world.secure(&cfg)
	}
	return cfg
}

// start runs a source until the test ends or it is stopped.
func (b *bench) start(cfg kafka.Config, sink kafka.Sink) *consumer {
	b.Helper()
	source, err := kafka.New(cfg, sink)
	b.check(err)
	ctx, cancel := context.WithCancel(context.Background())
	c := &consumer{Source: source, bench: b, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		c.err = source.Run(ctx)
	}()
	b.Cleanup(func() { c.cancel(); <-c.ended })
	return c
}

// stop stops cleanly.
func (c *consumer) stop() {
	c.bench.Helper()
	c.cancel()
	<-c.ended
	if c.err != nil {
		c.bench.Fatalf("Run ended with %v; the log:\n%s", c.err, c.bench.log)
	}
}

// crash stops as SIGKILL would.
func (c *consumer) crash() {
	c.Crash()
	c.cancel()
	<-c.ended
}

// partition is what the source says of a partition, if it has it.
func (c *consumer) partition(topic string, partition int32) (kafka.PartitionStats, bool) {
	for _, p := range c.Stats().Partitions {
		if p.Topic == topic && p.Partition == partition {
			return p, true
		}
	}
	return kafka.PartitionStats{}, false
}

// awaitMember waits until the source has so many partitions.
func (c *consumer) awaitMember(partitions int) {
	c.bench.Helper()
	c.bench.eventually(fmt.Sprintf("the member has %d partitions", partitions), func() bool {
		st := c.Stats()
		return st.Member != "" && len(st.Partitions) == partitions
	})
}

// logBook collects the log of a test.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
