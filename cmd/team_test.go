package cmd_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/inboxd/inboxd/internal/pgtest"
)

// team builds the program of testdata/team and returns a function that makes
// its command lines, on the database of url.
func team(t *testing.T, url string) func(stdin string, args ...string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), "team")
	if out, err := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", program, "./testdata/team")...).CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	dir := t.TempDir()
	return func(stdin string, args ...string) *exec.Cmd {
		c := exec.Command(program, args...)
		c.Dir = dir
		c.Env = append(os.Environ(), "DATABASE_URL="+url, "GORACE=atexit_sleep_ms=0")
		c.Stdin = strings.NewReader(stdin)
		return c
	}
}

func TestATeamsOwnProgram(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	pool := pgtest.Pool(t, url)
	program := team(t, url)
	ctx := context.Background()
	if _, err := pool.Exec(ctx, "create table debits (account text, amount bigint)"); err != nil {
		t.Fatal(err)
	}
	events := `{"event_id":"e-1","aggregate_id":"a","event_type":"OrderPaid","payload":{"amount":12}}
{"event_id":"e-2","aggregate_id":"a","event_type":"OrderPaid","payload":{"amount":30}}
`
	for _, step := range []struct{ stdin, args string }{
		{"", "migrate up"}, {events, "ingest"}, {"", "serve --drain"}, {events, "ingest"}, {"", "serve --drain"},
	} {
		if out, err := program(step.stdin, strings.Fields(step.args)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step.args, err, out)
		}
	}
	var debited int64
	if err := pool.QueryRow(ctx, "select sum(amount) from debits").Scan(&debited); err != nil || debited != 42 {
		t.Errorf("debited %d, want 42 (%v)", debited, err)
	}

	// SIGTERM is a clean stop.
	serve := program("", "serve")
	var said lockedBuffer
	serve.Stderr = &said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill() })
	if err := waitFor(url, "select count(*) = 1 from inboxd.processes"); err != nil {
		t.Fatal(err)
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, said.String())
	}
}
