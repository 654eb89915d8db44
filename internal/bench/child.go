package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inboxd/inboxd/ordering"
)

// W8 and W9 run lanes in processes of their own: this program again. A child
// reads an order as one line of JSON, then commands, a line each:
//
//	run   begin to run lanes, as armed
//	arm   take the next lane that is read for the beginning, and count from zero
//	stop  end the run, after what runs, and say so
//
// It writes reports as lines of JSON, and ends with its standard input.

// order is what a child is to do.
type order struct {
	URL      string `json:"url"`
	Schema   string `json:"schema"`
	Accounts string `json:"accounts"` // the table
	Workers  int    `json:"workers"`
	Batch    int    `json:"batch"`
}

// report is what a child did. Times are nanoseconds of Unix time.
type report struct {
	Began     int64 `json:"began"`     // when the first lane was read since arm; 0: not yet
	Processed int64 `json:"processed"` // since arm
	At        int64 `json:"at"`        // when Processed was reached
	Peak      int64 `json:"peak"`      // most memory resident so far, in KiB; with Stopped
	Stopped   bool  `json:"stopped"`
	Armed     bool  `json:"armed"` // the answer to arm
	Ready     bool  `json:"ready"` // the answer to run
}

// childPoll is how often a child looks at its count.
const childPoll = time.Millisecond

// Child is the other side of W8 and W9: it runs lanes as the orders on in say,
// until in ends.
func Child(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return fmt.Errorf("read the order: %w", io.ErrUnexpectedEOF)
	}
	c := &child{out: json.NewEncoder(out), watch: &watch{}}
	if err := json.Unmarshal(lines.Bytes(), &c.order); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	pool, err := openPool(c.URL, c.Workers+reserve, c.watch)
	if err != nil {
		return err
	}
	defer pool.Close()
	accounts := accounts{table: c.Accounts}
	c.start = func() (*engine, error) {
		reg, err := accounts.registry()
		if err != nil {
			return nil, err
		}
		return startEngine(pool, reg, ordering.Config{Schema: c.Schema, Workers: c.Workers, Batch: c.Batch})
	}
	for lines.Scan() && ctx.Err() == nil {
		if err := c.obey(lines.Text()); err != nil {
			return err
		}
	}
	return c.obey("stop")
}

// child is a child's own side.
type child struct {
	order
	watch *watch
	start func() (*engine, error)

	outMu sync.Mutex
	out   *json.Encoder

	engine    *engine
	reporting sync.WaitGroup
	quit      chan struct{}

	mu   sync.Mutex
	from int64 // the count at arm
}

func (c *child) obey(command string) (err error) {
	switch command {
	case "run":
		c.watch.arm()
		c.from = 0
		if c.engine, err = c.start(); err != nil {
			return err
		}
		c.quit = make(chan struct{})
		c.reporting.Go(c.report)
		return c.say(report{Ready: true})
	case "arm":
		c.mu.Lock()
		c.from = c.engine.p.Stats().Processed
		c.watch.arm()
		c.mu.Unlock()
		return c.say(report{Armed: true})
	case "stop":
		if c.engine == nil {
			return nil
		}
		peak := peakMemory()
		close(c.quit)
		c.reporting.Wait()
		total, err := c.engine.stop()
		c.engine = nil
		if err != nil {
			return err
		}
		return c.say(report{Processed: total, Peak: max(peak, peakMemory()), Stopped: true})
	}
	return fmt.Errorf("there is no command %q", command)
}

// report writes the count whenever it has changed.
func (c *child) report() {
	ticker := time.NewTicker(childPoll)
	defer ticker.Stop()
	said := report{}
	for {
		select {
		case <-c.quit:
			return
		case <-ticker.C:
		}
		c.mu.Lock()
		now := report{Began: c.watch.began.Load(), Processed: c.engine.p.Stats().Processed - c.from, At: time.Now().UnixNano()}
		c.mu.Unlock()
		if now.Processed == said.Processed && now.Began == said.Began {
			continue
		}
		if c.say(now) != nil {
			return // the parent is gone, and in ends too
		}
		said = now
	}
}

func (c *child) say(r report) error {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	return c.out.Encode(r)
}

// peakMemory is the most memory that this process had resident, in KiB; where
// the system does not tell, what it has now. 0: unknown.
func peakMemory() int64 {
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
				n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				return n
			}
		}
	}
	out, err := exec.Command("ps", "-o", "rss=", "-p", strconv.Itoa(os.Getpid())).Output()
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(out)), 10, 64)
	return n
}
