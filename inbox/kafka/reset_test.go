package kafka_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

func (b *bench) openGroup(topics ...string) *kafka.Group {
	b.Helper()
	group, err := kafka.OpenGroup(b.config(topics...))
	b.check(err)
	b.Cleanup(group.Close)
	return group
}

// The offsets of a group that nobody is a member of are moved, and its next
// member begins there; while there is one, they are not.
func TestGroupIsMoved(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	b := newBench(t, w)
	topic := b.topic("t", 2)
	b.produce(topic, 0, 10, "v")
	group := b.openGroup(topic)
	before, err := group.Partitions(b.ctx)
	b.check(err)
	if len(before) != 2 || before[0].Committed != -1 || before[0].Newest != 10 || before[0].End != 10 || before[1].Newest != 0 {
		t.Fatalf("before anybody came: %+v", before)
	}
	members, err := group.Members(b.ctx)
	if err != nil || len(members) != 0 {
		t.Fatalf("members %v, %v", members, err)
	}

	sink := newMemory()
	cfg := b.config(topic)
	cfg.InstanceID = "shop-7"
	c := b.start(cfg, sink)
	sink.awaitCount(b, topic, 0, 10)
	b.awaitCommit(topic, 0, 10)
	if members, err = group.Members(b.ctx); err != nil || len(members) != 1 || !strings.HasPrefix(members[0], "shop-7 at 127.0.0.1") {
		t.Errorf("members %v, %v", members, err)
	}
	if err := group.Move(b.ctx, before[:1], []int64{3}); !errors.Is(err, kafka.ErrHasMembers) {
		t.Errorf("with a member: %v", err)
	}
	c.stop()
	b.eventually("the static member's session has ended", func() bool {
		members, err := group.Members(b.ctx)
		return err == nil && len(members) == 0
	})
	now, err := group.Partitions(b.ctx)
	b.check(err)
	b.check(group.Move(b.ctx, now[:1], []int64{3}))
	if got, mark := b.committed(topic, 0); got != 3 || !strings.HasPrefix(mark, "inboxd topic=") {
		t.Errorf("offset %d with the mark %q is committed", got, mark)
	}
	again := newMemory()
	b.start(b.config(topic), again)
	again.awaitCount(b, topic, 0, 7)
	if first := again.of(topic, 0)[0].Source.Offset; first != 3 {
		t.Errorf("it begins at %d", first)
	}
}

// An offset for a time, and the newest where no record is so young.
func TestGroupAtATime(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	b := newBench(t, w)
	topic := b.topic("t", 2)
	start := time.UnixMilli(1_700_000_000_000)
	for i := range 5 {
		b.check(b.producer.Produce(b.ctx, &inbox.Record{
			Value: []byte("v"), Time: start.Add(time.Duration(i) * time.Hour), Source: inbox.Source{Topic: topic},
		}))
	}
	group := b.openGroup(topic)
	all, err := group.Partitions(b.ctx)
	b.check(err)
	for at, want := range map[time.Time]int64{start.Add(-time.Hour): 0, start.Add(90 * time.Minute): 2, start.Add(24 * time.Hour): 5} {
		got, err := group.At(b.ctx, all, at)
		if err != nil || got[0] != want || got[1] != 0 {
			t.Errorf("at %v: %v, %v", at, got, err)
		}
	}
}

// A partition that stopped is seen as such from outside, and goes on after a move.
func TestStoppedPartitionGoesOn(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	b := newBench(t, w)
	topic := b.topic("t", 1)
	b.produce(topic, 0, 10, "v")
	b.commit(topic, 0, 2)
	b.deleteRecords(topic, 0, 5)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	b.eventually("it has stopped and says why", func() bool {
		p, ok := c.partition(topic, 0)
		return ok && p.State == kafka.Stopped &&
			p.LastError == "offset 2 is not in the broker's log, which holds 5 up to 10; set it with inboxd sources reset" && !p.LastErrorAt.IsZero()
	})
	b.eventually("the mark is committed", func() bool {
		_, mark := b.committed(topic, 0)
		return strings.Contains(mark, "stopped")
	})
	c.stop()
	group := b.openGroup(topic)
	all, err := group.Partitions(b.ctx)
	b.check(err)
	if !all[0].Stopped || all[0].Committed != 2 || all[0].Oldest != 5 {
		t.Errorf("from outside: %+v", all[0])
	}
	b.check(group.Move(b.ctx, all, []int64{all[0].Oldest}))
	b.start(b.config(topic), sink)
	sink.awaitCount(b, topic, 0, 5)
}

func TestGroupWithoutBroker(t *testing.T) {
	t.Parallel()
	b := newBench(t, world{addrs: []string{"127.0.0.1:1"}})
	_, err := b.openGroup("t").Partitions(b.ctx)
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
	if _, err := kafka.OpenGroup(kafka.Config{}); err == nil {
		t.Error("an empty configuration was taken")
	}
}

// A broker that hangs is waited for no longer than the context.
func TestGroupBeforeTheBrokerAnswers(t *testing.T) {
	t.Parallel()
	fake, w := fake(t, broker.Config{Topics: map[string]int32{"t": 1}})
	b := newBench(t, w)
	fake.Freeze()
	ctx, cancel := context.WithTimeout(b.ctx, 200*time.Millisecond)
	defer cancel()
	_, err := b.openGroup("t").Partitions(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the broker did not answer in time") {
		t.Errorf("got %v", err)
	}
}
