//go:build kafka

package kafka_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	cmd := exec.Command(k.script, append([]string{verb, k.dir}, args...)...)
	cmd.Env = append(os.Environ(), "KAFKA_LOCAL_OWNER="+strconv.Itoa(os.Getpid())) // a test may end without its cleanup
	out, err := cmd.CombinedOutput()
	if err != nil {
		k.t.Fatalf("%s %s: %v\n%s", k.script, verb, err, out)
	}
}

func startReal(t *testing.T, args ...string) (realKafka, world) {
	t.Helper()
	return startRealIn(t, t.TempDir(), args...)
}

func startRealIn(t *testing.T, dir string, args ...string) (realKafka, world) {
	t.Helper()
	script := os.Getenv("INBOXD_TEST_KAFKA_SCRIPT")
	if script == "" {
		script, _ = filepath.Abs("../../testdata/kafka-local")
	}
	k := realKafka{t: t, script: script, dir: dir}
	t.Cleanup(func() { k.do("kill") })
	k.do("start", append([]string{"--port", "0"}, args...)...)
	return k, world{
		addrs:  strings.Split(k.env("BOOTSTRAP"), ","),
		freeze: func() { k.do("pause") }, thaw: func() { k.do("resume") },
		kill: func() { k.do("kill") }, restart: func() { k.do("restart") },
		churn: time.Minute, frozen: 20 * time.Second, many: 1_000_000,
	}
}

// env is what the script says about the cluster under a name.
func (k realKafka) env(name string) string {
	k.t.Helper()
	env, err := os.ReadFile(filepath.Join(k.dir, "env"))
	if err != nil {
		k.t.Fatal(err)
	}
	for line := range strings.Lines(string(env)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return value
		}
	}
	k.t.Fatalf("%s does not say %s:\n%s", k.script, name, env)
	return ""
}

func TestReal(t *testing.T) {
	_, w := startReal(t)
	t.Run("suite", func(t *testing.T) { suite(t, w) })
}

func TestRealOutages(t *testing.T) {
	_, w := startReal(t)
	outages(t, w)
}

func TestRealOfThree(t *testing.T) {
	k, w := startReal(t, "--brokers", "3")
	w.move = (*bench).electOthers
	suiteOfThree(t, w)
	t.Run("without a leader", func(t *testing.T) { testLeaderless(newBench(t, w), k) })
	t.Run("one frozen", func(t *testing.T) { testOneFrozen(newBench(t, w), k) })
	t.Run("one killed", func(t *testing.T) { testOneKilled(newBench(t, w), k) })
}

// testOneKilled kills each broker in turn, while records are written to a topic
// of three replicas.
func testOneKilled(b *bench, k realKafka) {
	topic := b.group + ".t"
	b.createReplicated(topic, 6, 3)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	load := b.load(topic, 6)
	load.awaitMore(sink, 600)
	for _, node := range []string{"1", "2", "3"} {
		k.do("kill", node)
		load.awaitMore(sink, 600)
		k.do("restart", node)
		load.awaitMore(sink, 600)
	}
	load.verify(sink, 6)
	b.awaitAllCommitted(topic, 6)
	c.stop()
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

// testOneFrozen stops a broker, as a machine does that hangs: the one that
// coordinates the group, and then another. The leaders move, and the client has
// to find out by itself: everything is read while the broker hangs.
func testOneFrozen(b *bench, k realKafka) {
	topic := b.group + ".t"
	b.createReplicated(topic, 6, 3)
	sink := newMemory()
	c := b.start(b.config(topic), sink)
	load := b.load(topic, 6)
	load.awaitMoreOfAll(sink, 6, 100)
	coordinator := b.coordinator()
	for _, node := range []int32{coordinator, coordinator%3 + 1} {
		name := strconv.Itoa(int(node))
		k.do("pause", name)
		b.Cleanup(func() { k.do("resume", name) }) // if the test ends before it does
		began := time.Now()
		load.awaitMoreOfAll(sink, 6, 1000)
		b.Logf("broker %s hangs: a thousand more records of each partition were read after %v", name, time.Since(began))
		k.do("resume", name)
		load.awaitMoreOfAll(sink, 6, 100)
	}
	load.verify(sink, 6)
	b.awaitAllCommitted(topic, 6)
	c.stop()
}
