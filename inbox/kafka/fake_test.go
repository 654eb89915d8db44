package kafka_test

import (
	"flag"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

func TestMain(m *testing.M) {
	// Most of them wait most of the time; -parallel says otherwise.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// One for the whole process, started by the client library's metrics.
		goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func fake(t *testing.T, cfg broker.Config) (*broker.Broker, world) {
	t.Helper()
	cfg.Options = append(cfg.Options, kfake.GroupMinSessionTimeout(time.Second))
	fake, err := broker.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return fake, world{
		addrs: fake.Addrs(), freeze: fake.Freeze, thaw: fake.Thaw,
		churn: 10 * time.Second, frozen: 4 * time.Second, many: 1_000_000,
	}
}

func TestFake(t *testing.T) {
	t.Parallel()
	_, w := fake(t, broker.Config{})
	t.Run("suite", func(t *testing.T) { suite(t, w) })
}

func TestFakeOfThree(t *testing.T) {
	t.Parallel()
	three, w := fake(t, broker.Config{Ports: []int{0, 0, 0}})
	w.move = func(_ *bench, topic string) { moveLeaders(t, three, topic) }
	suiteOfThree(t, w)
}

// moveLeaders moves the leader of each partition, and the groups' coordinators.
func moveLeaders(t *testing.T, three *broker.Broker, topic string) {
	cluster := three.Cluster()
	for _, p := range cluster.PartitionInfos(topic) {
		next := (p.Leader + 1) % int32(len(three.Addrs()))
		if err := cluster.MoveTopicPartition(topic, p.Partition, next); err != nil {
			t.Error(err)
		}
	}
	cluster.RehashCoordinators()
}

func TestFakeOutages(t *testing.T) {
	t.Parallel()
	cfg := broker.Config{Dir: t.TempDir()}
	first, w := fake(t, cfg)
	_, port, _ := net.SplitHostPort(w.addrs[0])
	cfg.Ports = []int{atoi(port)}
	now := first
	w.freeze, w.thaw = func() { now.Freeze() }, func() { now.Thaw() }
	w.kill, w.restart = func() { now.Close() }, func() { now, _ = fake(t, cfg) }
	outages(t, w)
}

// The broker comes after the source.
func TestBrokerAwayAtStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	addr := l.Addr().String()
	l.Close()
	b := newBench(t, world{addrs: []string{addr}})
	sink := newMemory()
	c := b.start(b.config("t"), sink)
	b.eventually("the log says that the broker is away", func() bool { return strings.Contains(b.log.String(), "connection refused") })
	if c.Stats().LastError == "" {
		t.Error("the stats know of no error")
	}
	fake(t, broker.Config{Ports: []int{port}, Topics: map[string]int32{"t": 1}})
	b.produce("t", 0, 5, "v")
	sink.awaitCount(b, "t", 0, 5)
	c.stop()
}

func atoi(s string) (n int) {
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n
}

// A broker that hangs for longer than the session and goes on.
func testThaw(b *bench) {
	topic := b.topic("t", 2)
	sink := newMemory()
	cfg := b.config(topic)
	cfg.SessionTimeout = shortSession
	c := b.start(cfg, sink)
	b.produce(topic, 0, 5, "v")
	sink.awaitCount(b, topic, 0, 5)
	b.world.freeze()
	<-time.After(2 * time.Second) // longer than the session: it is the time that is tested
	b.world.thaw()
	b.produce(topic, 0, 5, "w")
	b.produce(topic, 1, 5, "w")
	sink.awaitCount(b, topic, 0, 10)
	sink.awaitCount(b, topic, 1, 5)
	b.awaitCommit(topic, 0, 10)
	c.stop()
	sink.verify(b)
}

func TestConfigErrors(t *testing.T) {
	good := kafka.Config{Brokers: []string{"b:9092"}, Group: "g", Topics: []string{"t"}}
	if _, err := kafka.New(good, newMemory()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*kafka.Config){
		"The brokers must be":           func(c *kafka.Config) { c.Brokers = nil },
		"The consumer group needs":      func(c *kafka.Config) { c.Group = "" },
		"The topics must be":            func(c *kafka.Config) { c.Topics = []string{""} },
		"must be larger than 0":         func(c *kafka.Config) { c.Workers = -1 },
		"must be longer than 0":         func(c *kafka.Config) { c.StopTimeout = -1 },
		"every 30 seconds at least":     func(c *kafka.Config) { c.TopicRefresh = time.Minute },
		"every second at least":         func(c *kafka.Config) { c.Heartbeat = 2 * time.Second },
		"must be at least three heartb": func(c *kafka.Config) { c.SessionTimeout = 2 * time.Second },
	} {
		cfg := good
		change(&cfg)
		if _, err := kafka.New(cfg, newMemory()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestParseStart(t *testing.T) {
	for _, s := range []string{"oldest", "newest", "2026-01-02T03:04:05Z"} {
		start, err := kafka.ParseStart(s)
		if err != nil || start.String() != s {
			t.Errorf("%q became %q, %v", s, start, err)
		}
	}
	if _, err := kafka.ParseStart("yesterday"); err == nil {
		t.Error("yesterday was taken for a time")
	}
}
