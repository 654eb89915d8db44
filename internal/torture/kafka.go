//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// realBroker is a broker that a script runs: it has the verbs start, stop, kill,
// pause and resume, each with the directory of the broker, and start has --port.
type realBroker struct {
	script, dir string
	port        int
}

func (b *realBroker) start(ctx context.Context) error {
	return b.run(ctx, "start", "--port", strconv.Itoa(b.port))
}
func (b *realBroker) stop(ctx context.Context) error   { return b.run(ctx, "stop") }
func (b *realBroker) kill(ctx context.Context) error   { return b.run(ctx, "kill") }
func (b *realBroker) freeze(ctx context.Context) error { return b.run(ctx, "pause") }
func (b *realBroker) thaw(ctx context.Context) error   { return b.run(ctx, "resume") }

func (b *realBroker) end() {
	_ = b.run(context.Background(), "resume") // it may be frozen, or never have started
	_ = b.run(context.Background(), "kill")
}

func (b *realBroker) run(ctx context.Context, verb string, args ...string) error {
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(limited, b.script, append([]string{verb, b.dir}, args...)...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, time.Second
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s %s: %w: %s", b.script, verb, err, lastLines(said.Bytes()))
	}
	return nil
}

// makeTopics makes the topics on a broker that has none.
func (w *world) makeTopics(ctx context.Context) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(w.addr))
	if err != nil {
		return err
	}
	defer client.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	for name, partitions := range topics {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
		req.Topics = append(req.Topics, t)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("make the topics: %w", err)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("make topic %s: %w", t.Topic, err)
		}
	}
	return nil
}
