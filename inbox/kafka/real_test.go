//go:build kafka

package kafka_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tests of this file run the suite on Apache Kafka. They need the script
// that starts it, by default testdata/kafka-local of this project, or the one
// that INBOXD_TEST_KAFKA_SCRIPT names. It is called with a verb and a directory:
// start, stop, kill, restart, pause, resume.
type realKafka struct {
	t      *testing.T
	script string
	dir    string
}

func (k realKafka) do(verb string, args ...string) {
	k.t.Helper()
	out, err := exec.Command(k.script, append([]string{verb, k.dir}, args...)...).CombinedOutput()
	if err != nil {
		k.t.Fatalf("%s %s: %v\n%s", k.script, verb, err, out)
	}
}

func startReal(t *testing.T, args ...string) (realKafka, world) {
	t.Helper()
	script := os.Getenv("INBOXD_TEST_KAFKA_SCRIPT")
	if script == "" {
		script, _ = filepath.Abs("../../testdata/kafka-local")
	}
	k := realKafka{t: t, script: script, dir: t.TempDir()}
	k.do("start", append([]string{"--port", "0"}, args...)...)
	t.Cleanup(func() { k.do("kill") })
	env, err := os.ReadFile(filepath.Join(k.dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(env)) {
		if addrs, ok := strings.CutPrefix(strings.TrimSpace(line), "BOOTSTRAP="); ok {
			return k, world{
				addrs:  strings.Split(addrs, ","),
				freeze: func() { k.do("pause") }, thaw: func() { k.do("resume") },
			}
		}
	}
	t.Fatalf("no address in %s", env)
	return k, world{}
}

func TestReal(t *testing.T) {
	_, w := startReal(t)
	t.Run("suite", func(t *testing.T) { suite(t, w) })
	t.Run("thaw", func(t *testing.T) { testThaw(newBench(t, w)) })
	t.Run("stop frozen", func(t *testing.T) { testStopFrozen(newBench(t, w)) })
}

func TestRealRestarted(t *testing.T) {
	k, w := startReal(t)
	b := newBench(t, w)
	topic := b.topic("t", 2)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	for round := range 2 {
		for p := range int32(2) {
			b.produce(topic, p, 100, "v")
			sink.awaitCount(b, topic, p, 100*(round+1))
		}
		k.do("kill")
		k.do("restart")
	}
	for p := range int32(2) {
		b.produce(topic, p, 100, "v")
		sink.awaitCount(b, topic, p, 300)
		b.awaitCommit(topic, p, 300)
	}
	c.stop()
	sink.verify(b)
	t.Logf("%d records came twice", sink.twice)
}

func TestRealOfThree(t *testing.T) {
	k, w := startReal(t, "--brokers", "3")
	t.Run("rebalance", func(t *testing.T) { testRebalance(newBench(t, w)) })
	t.Run("transactions", func(t *testing.T) { testTransactions(newBench(t, w)) })
	t.Run("topic made again", func(t *testing.T) { testTopicMadeAgain(newBench(t, w)) })
	t.Run("without a leader", func(t *testing.T) { testLeaderless(newBench(t, w), k) })
	t.Run("one frozen", func(t *testing.T) { testOneFrozen(newBench(t, w), k) })
	t.Run("one killed", func(t *testing.T) { testOneKilled(newBench(t, w), k) })
}

// testOneKilled kills each broker in turn; the topic has three replicas.
func testOneKilled(b *bench, k realKafka) {
	topic := b.group + ".t"
	b.createReplicated(topic, 6, 3)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	n := 0
	write := func() {
		n += 20
		for p := range int32(6) {
			b.produce(topic, p, 20, "v")
		}
		for p := range int32(6) {
			sink.awaitCount(b, topic, p, n)
		}
	}
	write()
	for _, node := range []string{"1", "2", "3"} {
		k.do("kill", node)
		write()
		k.do("restart", node)
		write()
	}
	for p := range int32(6) {
		b.awaitCommit(topic, p, int64(n))
	}
	c.stop()
	sink.verify(b)
	b.Logf("%d of %d records came twice", sink.twice, sink.total())
}

// testLeaderless kills a broker that leads partitions without other replicas:
// the others are read, also by a member that joins meanwhile.
func testLeaderless(b *bench, k realKafka) {
	topic := b.topic("t", 6)
	sink := newMemory()
	first := b.start(b.config(topic), sink)
	for p := range int32(6) {
		b.produce(topic, p, 5, "v")
		sink.awaitCount(b, topic, p, 5)
	}
	k.do("kill", "2")
	b.eventually("partitions have no leader", func() bool { return b.leaders(topic) == 4 })
	first.stop()
	second := b.start(b.config(topic), sink)
	second.awaitMember(4)
	for _, p := range second.Stats().Partitions {
		b.produce(topic, p.Partition, 5, "w")
		sink.awaitCount(b, topic, p.Partition, 10)
	}
	k.do("restart", "2")
	second.awaitMember(6)
	b.newProducer()
	for p := range int32(6) {
		b.produce(topic, p, 5, "x")
		sink.awaitCount(b, topic, p, 10)
	}
	sink.verify(b)
}

// testOneFrozen stops each broker in turn, as a machine that hangs does. The
// leaders move; the client has to find out by itself.
func testOneFrozen(b *bench, k realKafka) {
	topic := b.group + ".t"
	b.createReplicated(topic, 6, 3)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	n := 0
	write := func() (written, read time.Duration) {
		began := time.Now()
		n += 20
		b.newProducer()
		for p := range int32(6) {
			b.produce(topic, p, 20, "v")
		}
		written = time.Since(began)
		for p := range int32(6) {
			sink.awaitCount(b, topic, p, n)
		}
		return written, time.Since(began)
	}
	write()
	for _, node := range []string{"1", "2", "3"} {
		k.do("pause", node)
		b.Cleanup(func() { k.do("resume", node) }) // if the test ends before it does
		written, read := write()
		k.do("resume", node)
		b.Logf("broker %s hangs: all partitions are written after %v and read after %v", node, written, read)
		write()
	}
	for p := range int32(6) {
		b.awaitCommit(topic, p, int64(n))
	}
	c.stop()
	sink.verify(b)
	b.Logf("%d of %d records came twice", sink.twice, sink.total())
}
