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

// server is the broker as faults see it.
type server interface {
	start(ctx context.Context) error
	stop(ctx context.Context) error // in its own time
	kill(ctx context.Context) error
	freeze(ctx context.Context) error
	thaw(ctx context.Context) error
	end() // for good
}

// startBroker starts the broker, waits until it listens and makes the topics.
func (w *world) startBroker(ctx context.Context) error {
	port, err := freePort(w.opts.random(purposePort))
	if err != nil {
		return err
	}
	w.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	dir := filepath.Join(w.dir, "broker")
	if w.opts.broker != fakeBroker {
		w.broker = &realBroker{script: w.opts.broker, dir: dir, port: port}
		if err := w.broker.start(ctx); err != nil {
			return err
		}
		return w.makeTopics(ctx)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w.broker = &embedded{slot: &slot{name: "broker", world: w, make: func(int) *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), roleVariable+"=broker",
			brokerDirVariable+"="+dir, brokerPortVariable+"="+strconv.Itoa(port))
		return cmd
	}}}
	return w.broker.start(ctx)
}

// fakeBroker is the embedded one.
const fakeBroker = "fake"

// embedded is this program in the broker's role.
type embedded struct{ slot *slot }

func (e *embedded) start(ctx context.Context) error {
	if err := e.slot.start(); err != nil {
		return err
	}
	return e.slot.world.awaitBroker(ctx, e.slot)
}

func (e *embedded) stop(context.Context) error { _, err := e.slot.stop(stopLimit); return err }
func (e *embedded) kill(context.Context) error { e.slot.kill(); return nil }
func (e *embedded) end()                       { e.slot.end() }

func (e *embedded) freeze(context.Context) error { return e.signal(syscall.SIGSTOP) }
func (e *embedded) thaw(context.Context) error   { return e.signal(syscall.SIGCONT) }

func (e *embedded) signal(sig syscall.Signal) error {
	if p := e.slot.process(); p != nil {
		p.signal(sig)
	}
	return nil
}

func (w *world) awaitBroker(ctx context.Context, s *slot) error {
	for range 200 {
		conn, err := net.DialTimeout("tcp", w.addr, time.Second)
		if err == nil {
			return conn.Close()
		}
		if s.process() == nil {
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
