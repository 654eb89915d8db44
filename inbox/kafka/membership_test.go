package kafka_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

// instances are the instance ids of the group's members.
func (b *bench) instances() (ids []string) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{b.group}
	resp, err := req.RequestWith(b.ctx, b.admin)
	b.check(err)
	b.check(kerr.ErrorForCode(resp.Groups[0].ErrorCode))
	for _, m := range resp.Groups[0].Members {
		if m.InstanceID != nil {
			ids = append(ids, *m.InstanceID)
		}
	}
	return ids
}

// A second process with the same instance id takes the place of the first, whose
// Run ends and says why. The second goes on.
func TestStaticMemberIsFenced(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	b := newBench(t, w)
	topic := b.topic("t", 2)
	sink := newMemory()
	cfg := b.config(topic)
	cfg.InstanceID = "shop-1"
	first := b.start(cfg, sink)
	first.awaitMember(2)
	b.produce(topic, 0, 5, "v")
	sink.awaitCount(b, topic, 0, 5)
	b.awaitCommit(topic, 0, 5) // a commit with the instance id is taken
	if ids := b.instances(); len(ids) != 1 || ids[0] != "shop-1" {
		t.Errorf("the group has the instances %v", ids)
	}

	second := b.start(cfg, sink)
	<-first.ended
	if !errors.Is(first.err, kafka.ErrFenced) || !strings.Contains(first.err.Error(), `"shop-1"`) {
		t.Errorf("the first ended with %v", first.err)
	}
	second.awaitMember(2)
	b.produce(topic, 1, 5, "v")
	sink.awaitCount(b, topic, 1, 5)
	b.awaitCommit(topic, 1, 5)
	second.stop()
	sink.verify(b)
}

func TestInstanceIDErrors(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"a b", "ä", strings.Repeat("x", 250)} {
		_, err := kafka.New(kafka.Config{Brokers: []string{"b:9092"}, Group: "g", Topics: []string{"t"}, InstanceID: bad}, newMemory())
		if err == nil || !strings.Contains(err.Error(), "The instance id must have") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
