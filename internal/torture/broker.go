//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/inboxd/inboxd/internal/broker"
)

// The topics and their partitions.
var topics = map[string]int32{"shop": 8, "team": 6}

// Variables of the broker's role.
const (
	brokerDirVariable  = "TORTURE_BROKER_DIR"
	brokerPortVariable = "TORTURE_BROKER_PORT"
)

// brokerMain is the broker's process: it runs until SIGTERM and leaves its state
// in its directory.
func brokerMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	port, err := strconv.Atoi(os.Getenv(brokerPortVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	b, err := broker.Start(broker.Config{Dir: os.Getenv(brokerDirVariable), Ports: []int{port}, Topics: topics})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	<-ctx.Done()
	b.Close()
	return 0
}

// startBroker starts the broker and waits until it listens.
func (w *world) startBroker(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	port, err := freePort(w.opts.random(purposePort))
	if err != nil {
		return err
	}
	w.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	w.broker = &slot{name: "broker", world: w, make: func(int) *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), roleVariable+"=broker",
			brokerDirVariable+"="+filepath.Join(w.dir, "broker"), brokerPortVariable+"="+strconv.Itoa(port))
		return cmd
	}}
	if err := w.broker.start(); err != nil {
		return err
	}
	return w.awaitBroker(ctx)
}

func (w *world) awaitBroker(ctx context.Context) error {
	for range 200 {
		conn, err := net.DialTimeout("tcp", w.addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		if w.broker.process() == nil {
			break
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("the broker does not listen (%s)", filepath.Join(w.dir, "broker.log"))
}

// sleep reports whether it slept to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
