package cmd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/internal/postgres"
)

// job is one command line that runs beside the test.
type job struct {
	stdin  *io.PipeWriter
	stderr lockedBuffer
	stop   context.CancelFunc
	code   chan int
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, url string, args ...string) *job {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	in, stdin := io.Pipe()
	j := &job{stdin: stdin, stop: cancel, code: make(chan int, 1)}
	go func() {
		j.code <- cmd.Run(ctx, handlers.New(), args, in, io.Discard, &j.stderr, []string{"DATABASE_URL=" + url})
		_ = in.Close() // ends the writer
	}()
	t.Cleanup(func() { cancel(); _ = stdin.Close() })
	return j
}

// says waits until the job has written something to stderr.
func (j *job) says(t *testing.T, what string) {
	t.Helper()
	deadline := time.After(untilLimit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(j.stderr.String(), what) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it never said %q, but:\n%s", what, j.stderr.String())
		}
	}
}

func (j *job) ends(t *testing.T, want int) {
	t.Helper()
	select {
	case code := <-j.code:
		if code != want {
			t.Errorf("exit %d, want %d\n%s", code, want, j.stderr.String())
		}
	case <-time.After(untilLimit):
		t.Fatalf("it did not end:\n%s", j.stderr.String())
	}
}

func shutdown(t *testing.T, s *postgres.Server, mode postgres.Mode) {
	t.Helper()
	if err := s.Shutdown(t.Context(), mode); err != nil {
		t.Fatal(err)
	}
}

func TestServeWaitsForADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	if code, stderr := run(t, io.Discard, []string{"DATABASE_URL=" + server.URL()}, "migrate", "up"); code != 0 {
		t.Fatal(stderr)
	}
	shutdown(t, server, postgres.Clean)
	waits, stops := start(t, server.URL(), "serve"), start(t, server.URL(), "serve")
	waits.says(t, "the database is out of reach; waiting for it")
	stops.says(t, "the database is out of reach; waiting for it")
	stops.stop()
	stops.ends(t, 0)
	// A drain has an end, and does not wait for its beginning.
	code, stderr := run(t, io.Discard, []string{"DATABASE_URL=" + server.URL()}, "serve", "--drain")
	if code != 5 || !strings.Contains(stderr, "no PostgreSQL answers at 127.0.0.1:") {
		t.Errorf("serve --drain: exit %d\n%s", code, stderr)
	}
	if err := server.Restart(t.Context(), postgres.Clean); err != nil {
		t.Fatal(err)
	}
	waits.says(t, "the database answers")
	waits.says(t, "running lanes only")
	waits.stop()
	waits.ends(t, 0)
}

func TestAWrongPasswordIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.Server(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), "wrong")
	for _, args := range []string{"migrate up", "ingest", "serve", "serve --drain"} {
		code, stderr := run(t, io.Discard, []string{"DATABASE_URL=" + u.String()}, strings.Fields(args)...)
		if code != 5 || !strings.Contains(stderr, `does not accept the password of user "postgres"`) ||
			!strings.Contains(stderr, "hint: set the right password") || strings.Contains(stderr, "wrong") {
			t.Errorf("inboxd %s: exit %d\n%s", args, code, stderr)
		}
	}
}

func TestIngestSaysHowFarItCame(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	if code, stderr := run(t, io.Discard, []string{"DATABASE_URL=" + server.URL()}, "migrate", "up"); code != 0 {
		t.Fatal(stderr)
	}
	pool := pgtest.Pool(t, server.URL())
	ingest := start(t, server.URL(), "ingest")
	write := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := fmt.Fprintf(ingest.stdin, `{"event_id":"e-%d","aggregate_id":"a-%d","event_type":"T"}`+"\n", i, i%10); err != nil {
				return // the command has ended
			}
		}
	}
	write(0, 1001) // the line after a batch shows that it is on its way
	deadline := time.Now().Add(untilLimit)
	for stored := 0; stored < 1000; {
		if err := pool.QueryRow(t.Context(), "select count(*) from inboxd.inbox").Scan(&stored); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d lines stored, want 1000", stored)
		}
	}
	shutdown(t, server, postgres.Immediate)
	go write(1001, 5000)
	ingest.ends(t, 5)
	for _, part := range []string{"1,000 lines up to line 1000 are stored", "run it again: what is stored already is dropped as a duplicate"} {
		if !strings.Contains(ingest.stderr.String(), part) {
			t.Errorf("it does not say %q, but:\n%s", part, ingest.stderr.String())
		}
	}
}
