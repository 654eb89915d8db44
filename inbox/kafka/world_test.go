package kafka_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

// world is a cluster that the suite runs on, and what can be done to it.
type world struct {
	addrs []string
	// freeze stops the cluster as SIGSTOP does; thaw lets it go on.
	freeze, thaw func()
	// kill ends the cluster; restart starts it again on the same data.
	kill, restart func()
	// move moves the leaders of all partitions of a topic to other brokers. It is
	// nil if there is one broker.
	move func(b *bench, topic string)

	// secure makes sources connect in another way than the tests do. It is nil if
	// they connect in the same one.
	secure func(*kafka.Config)

	// How long and how much the tests of endurance take: the time that members
	// come and go, the time that the cluster is frozen, and how many records are
	// many.
	churn, frozen time.Duration
	many          int
}

// patience is how long a test waits for what must happen.
const patience = 2 * time.Minute

var unique atomic.Int64

// bench is one test's place in a world: a group and topics of its own.
type bench struct {
	*testing.T
	world    world
	ctx      context.Context
	admin    *kgo.Client
	producer *broker.Producer
	group    string
	log      *logBook
}

func newBench(t *testing.T, w world) *bench {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	versions := kversion.Stable() // with names instead of topic ids, which a topic that is made again changes
	versions.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 9)
	versions.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 9)
	admin, err := kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.MetadataMinAge(10*time.Millisecond), kgo.MaxVersions(versions))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	name := strings.NewReplacer("/", ".", " ", "_").Replace(t.Name())
	b := &bench{
		T: t, world: w, ctx: ctx, admin: admin, log: &logBook{},
		group: fmt.Sprintf("%s.%d.%d", name, time.Now().UnixNano(), unique.Add(1)),
	}
	b.newProducer()
	return b
}

// produce writes n records, numbered on from those that are there, to a partition.
func (b *bench) produce(topic string, partition int32, n int, value string) []*inbox.Record {
	b.Helper()
	records := make([]*inbox.Record, n)
	for i := range records {
		records[i] = &inbox.Record{
			Key: fmt.Appendf(nil, "key-%d", i), Value: fmt.Appendf(nil, "%s-%d", value, i),
			Source: inbox.Source{Topic: topic, Partition: partition},
		}
	}
	b.check(b.producer.Produce(b.ctx, records...))
	return records
}

// produceNoise writes n records of a size that no codec makes much smaller.
func (b *bench) produceNoise(topic string, partition int32, n, size int) {
	b.Helper()
	records := make([]*inbox.Record, n)
	random := rand.NewChaCha8([32]byte{byte(partition)})
	for i := range records {
		value := make([]byte, size)
		_, _ = random.Read(value)
		records[i] = &inbox.Record{Value: value, Source: inbox.Source{Topic: topic, Partition: partition}}
	}
	b.check(b.producer.Produce(b.ctx, records...))
}

// newProducer forgets what the old one knew of topics.
func (b *bench) newProducer() {
	b.Helper()
	producer, err := broker.NewProducer(b.world.addrs...)
	b.check(err)
	b.Cleanup(producer.Close)
	b.producer = producer
}

func (b *bench) check(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// eventually waits for something outside this process, which sends no signal.
func (b *bench) eventually(what string, is func() bool) {
	b.Helper()
	deadline := time.After(patience)
	for !is() {
		select {
		case <-deadline:
			b.Fatalf("in vain waited until %s; the log:\n%s", what, b.log)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
