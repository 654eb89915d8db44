package ordering_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

// Some faults need a process of their own. The test binary, started again with
// this variable set, is one: it runs lanes of the named database until it gets
// SIGTERM. Its handlers do what the event's type says.
const childVariable = "INBOXD_TEST_CHILD"

func childMain(url string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	config, err := pgxpool.ParseConfig(url)
	exitOn(err)
	config.MaxConns = 12
	pool, err := pgxpool.NewWithConfig(ctx, config)
	exitOn(err)
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		return effect(ctx, tx, e.Message)
	})
	handlers.On(reg, "Kill", func(context.Context, pgx.Tx, handlers.Event[[]byte]) error {
		os.Exit(3)
		return nil
	})
	handlers.On(reg, "Slow", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		if err := effect(ctx, tx, e.Message); err != nil {
			return err
		}
		fmt.Println("running", e.ID)
		select {
		case <-time.After(700 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	p, err := ordering.New(pool, reg, ordering.Config{
		Workers: 4, Lease: 3 * time.Second, Sweep: 200 * time.Millisecond, Name: fmt.Sprint("child ", os.Getpid()),
		Retry: ordering.Retry{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond, Attempts: 3},
		Log:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	exitOn(err)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for p.ProcessID() == 0 {
			<-tick.C
		}
		fmt.Println("ready", p.ProcessID())
	}()
	exitOn(p.Run(ctx))
	pool.Close()
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// child is such a process.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	ended chan error
}

func (s *stage) child(t *testing.T) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000), ended: make(chan error, 1)}
	c.cmd.Env = append(os.Environ(), childVariable+"="+s.url)
	out, err := c.cmd.StdoutPipe()
	must(t, err)
	var stderr strings.Builder
	c.cmd.Stderr = &stderr
	must(t, c.cmd.Start())
	go c.read(out)
	t.Cleanup(func() {
		_ = c.cmd.Process.Signal(syscall.SIGCONT)
		_ = c.cmd.Process.Kill()
		<-c.ended
		if t.Failed() {
			t.Logf("child %d:\n%s", c.cmd.Process.Pid, stderr.String())
		}
	})
	return c
}

func (c *child) read(out io.Reader) {
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		c.lines <- scanner.Text()
	}
	err := c.cmd.Wait()
	close(c.lines)
	c.ended <- err
	close(c.ended)
}

// says waits for a line that begins so.
func (c *child) says(prefix string) string {
	c.t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("the child ended before it said %q", prefix)
			}
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-timeout:
			c.t.Fatalf("the child did not say %q", prefix)
		}
	}
}

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	must(c.t, c.cmd.Process.Signal(sig))
}
