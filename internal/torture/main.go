//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// roleVariable makes this program something else than the torture itself.
const roleVariable = "TORTURE_ROLE"

func main() {
	switch os.Getenv(roleVariable) {
	case "broker":
		os.Exit(brokerMain())
	case "worker":
		workerMain()
	}
	os.Exit(torture())
}

// options are the flags.
type options struct {
	duration   time.Duration
	seed       uint64
	inboxd     string
	processes  int
	workers    int
	rate       int
	aggregates int
	maxRSS     int
	patience   float64
	broker     string
	dir        string
	keep       bool
}

func readFlags() (options, error) {
	var o options
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long events are produced and faults happen")
	flag.Uint64Var(&o.seed, "seed", 1, "of the stream and of the schedule of faults")
	flag.StringVar(&o.inboxd, "inboxd", "bin/inboxd", "the binary to torture")
	flag.IntVar(&o.processes, "processes", 3, "processes of the binary")
	flag.IntVar(&o.workers, "workers", 2, "processes with handlers in Go, in a schema of their own")
	flag.IntVar(&o.rate, "rate", 800, "events a second")
	flag.IntVar(&o.aggregates, "aggregates", 800, "aggregates, in all")
	flag.IntVar(&o.maxRSS, "max-rss", 200, "the most MiB of memory of a process")
	flag.Float64Var(&o.patience, "patience", 1, "how many times as long as promised a lane may wait, on a machine that does other things besides")
	flag.StringVar(&o.broker, "broker", fakeBroker, "fake, the embedded broker, or a script that runs a real one: testdata/kafka-local")
	flag.StringVar(&o.dir, "dir", "", "the directory of the run (default: a new one)")
	flag.BoolVar(&o.keep, "keep", false, "keep the directory with the database, whatever happens")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		return o, fmt.Errorf("there are no arguments, but %q was given", flag.Arg(0))
	case o.duration < 10*time.Second:
		return o, errors.New("-duration must be at least 10s")
	case o.patience < 1:
		return o, errors.New("-patience must be at least 1")
	case o.processes < 1 || o.workers < 1 || o.rate < 10 || o.aggregates < 100:
		return o, errors.New("-processes and -workers must be at least 1, -rate 10, and -aggregates 100")
	}
	path, err := filepath.Abs(o.inboxd)
	if err != nil {
		return o, err
	}
	o.inboxd = path
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return o, fmt.Errorf("there is no binary at %s: build one with: go build -o bin/inboxd ./cmd/inboxd", path)
	}
	return o, nil
}

func torture() int {
	o, err := readFlags()
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	w, err := newWorld(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 2
	}
	err = w.run(ctx)
	w.tearDown()
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture: the run was not finished:", err)
		w.keepOrRemove(!errors.Is(err, context.Canceled))
		return 2
	}
	w.report(os.Stdout)
	w.keepOrRemove(w.findings.any())
	if w.findings.any() {
		return 1
	}
	return 0
}
