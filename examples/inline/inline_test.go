package inline_test

import (
	"context"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/inboxd/inboxd/examples/inline"
	"github.com/inboxd/inboxd/inboxtest"
)

// broker starts a Kafka of the test's own, inside of the process.
func broker(t *testing.T) []string {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "charges"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()
}

func produce(t *testing.T, brokers []string, messages ...[2]string) {
	t.Helper()
	config := sarama.NewConfig()
	config.Producer.Return.Successes = true
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	for _, m := range messages {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{
			Topic: "charges", Value: sarama.StringEncoder(m[1]),
			Headers: []sarama.RecordHeader{{Key: []byte("id"), Value: []byte(m[0])}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestEachMessageTakesEffectOnce(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, inboxtest.Options{Setup: inline.Tables})
	brokers := broker(t)
	produce(t, brokers,
		[2]string{"a", `{"Account":"alice","Cents":5}`},
		[2]string{"a", `{"Account":"alice","Cents":5}`}, // sent again
		[2]string{"b", `no charge`},
		[2]string{"c", `{"Account":"alice","Cents":2}`},
	)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- inline.Consume(ctx, brokers, []string{"charges"}, kit.Pool()) }()

	await(t, func() bool {
		return inboxtest.Get[bool](kit, `select exists (select from charges where cents = 7) and exists (select from poison where off = 2)`)
	})
	stop()
	if err := <-done; err != nil {
		t.Errorf("consume: %v", err)
	}
}

// await waits until a condition holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatal("it never came true")
		case <-tick.C:
		}
	}
}
