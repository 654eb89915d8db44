package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/inboxd/inboxd/inbox/kafka"
)

// The rights to read the topics and to read as the group are all that a source
// needs, and whoever moves its offsets.
func TestRightsThatSuffice(t *testing.T) {
	t.Parallel()
	read := func(kind kmsg.ACLResourceType, prefix string) kfake.ACL {
		return kfake.ACL{Resource: kind, Name: prefix, Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: kmsg.ACLOperationRead, Allow: true}
	}
	_, w := secure(t, 0, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser(kafka.Plain, "tool", "x"),
		kfake.User(kafka.Plain, "app", "pw", read(kmsg.ACLResourceTypeTopic, "t"), read(kmsg.ACLResourceTypeGroup, t.Name())))
	b := newBench(t, w)
	tool := kgo.SASL(plain.Auth{User: "tool", Pass: "x"}.AsMechanism())
	b.put(5, tool)
	cfg := b.config("^t.*")
	cfg.SASL = &kafka.SASL{Mechanism: kafka.Plain, User: "app", Password: "pw"}
	sink := newMemory()
	c := b.start(cfg, sink)
	sink.awaitCount(b, "t", 0, 5)
	b.eventually("it is committed", func() bool { p, ok := c.partition("t", 0); return ok && p.Committed == 5 })
	c.stop()

	group, err := kafka.OpenGroup(cfg)
	b.check(err)
	defer group.Close()
	all, err := group.Partitions(b.ctx)
	b.check(err)
	_, err = group.Members(b.ctx)
	b.check(err)
	b.check(group.Move(b.ctx, all, []int64{2}))
	again := newMemory()
	b.start(cfg, again)
	again.awaitCount(b, "t", 0, 3)

	b.group = "not allowed"
	other := b.config("t")
	other.SASL = cfg.SASL
	b.start(other, newMemory())
	b.awaitLog("level=WARN", "group", "not authorized")
}
