//go:build kafka

package kafka_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox/kafka"
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
	t.Run("static member restarts", func(t *testing.T) { testStaticRestart(newBench(t, w)) })
}

// testStaticRestart stops a static member and starts it again: the others do not
// notice, and nobody else reads its partitions meanwhile.
func testStaticRestart(b *bench) {
	topic := b.topic("t", 4)
	sink := newMemory()
	cfg := b.config(topic)
	cfg.SessionTimeout = 30 * time.Second
	stays := b.start(cfg, sink)
	cfg.InstanceID = "shop-1"
	first := b.start(cfg, sink)
	first.awaitMember(2)
	stays.awaitMember(2)
	before := stays.Stats()
	for _, p := range before.Partitions {
		b.produce(topic, p.Partition, 5, "v")
		sink.awaitCount(b, topic, p.Partition, 5)
	}
	had := first.Stats().Partitions
	first.stop()
	second := b.start(cfg, sink)
	second.awaitMember(2)
	for _, p := range second.Stats().Partitions {
		if !slices.ContainsFunc(had, func(h kafka.PartitionStats) bool { return h.Partition == p.Partition }) {
			b.Errorf("it has partition %d now, and had %v", p.Partition, had)
		}
		b.produce(topic, p.Partition, 5, "v")
		sink.awaitCount(b, topic, p.Partition, 5)
	}
	if after := stays.Stats(); after.Generation != before.Generation || after.Member != before.Member {
		b.Errorf("the other member went from generation %d to %d", before.Generation, after.Generation)
	}
	second.stop()
	sink.verifyOnce(b)
}

func TestRealInline(t *testing.T) {
	_, w := startReal(t)
	inlineSuite(t, newInlineWorld(t, w))
}

func TestRealOutages(t *testing.T) {
	_, w := startReal(t)
	outages(t, w)
}
