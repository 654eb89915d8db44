package kafka_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/inboxd/inboxd/internal/broker"
)

// A commit is refused because the group has given the partitions to others, before
// a heartbeat tells so. The member does not go on as if they were its own: it joins
// anew, and what it could not commit comes again.
func TestCommitIsRefused(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]*kerr.Error{
		"unknown member": kerr.UnknownMemberID, "old generation": kerr.IllegalGeneration,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, w := fake(t, broker.Config{Topics: map[string]int32{"t": 1}})
			b := newBench(t, w)
			sink := newMemory()
			c := b.start(b.config("t"), sink)
			c.awaitMember(1)
			b.awaitCommit("t", 0, 0)
			generation := c.Stats().Generation
			var refused atomic.Int64
			f.Cluster().ControlKey(int16(kmsg.OffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
				if c.Stats().Generation != generation {
					return nil, nil, false
				}
				f.Cluster().KeepControl()
				refused.Add(1)
				return refuseCommit(r.(*kmsg.OffsetCommitRequest), refusal.Code), nil, true
			})
			b.produce("t", 0, 5, "v")
			b.awaitCommit("t", 0, 5)
			if refused.Load() != 1 || c.Stats().Generation == generation {
				t.Errorf("after %d refusals, where one is enough, it is in generation %d and was in %d", refused.Load(), c.Stats().Generation, generation)
			}
			if !strings.Contains(b.log.String(), "The group no longer knows this member") {
				t.Errorf("nothing was said:\n%s", b.log)
			}
			c.stop()
			sink.verify(b)
			if sink.twice == 0 {
				t.Error("what was not committed did not come again")
			}
		})
	}
}

func refuseCommit(req *kmsg.OffsetCommitRequest, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}
