package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/internal/postgres"
)

// ownerVariable makes the test binary a process that owns the server of a directory.
const ownerVariable = "INBOXD_POSTGRES_TEST_OWNER"

func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv(ownerVariable); ok {
		beOwner(dir)
	}
	pgtest.Main(m)
}

// beOwner starts a server, says so, and lives until it is killed.
func beOwner(dir string) {
	s, err := postgres.Start(context.Background(), postgres.Config{Dir: dir, Fast: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.URL())
	select {}
}

// owner starts a process that owns the server of a directory. It returns what kills it, and the server's URL.
func owner(t *testing.T, dir string, env ...string) (kill func(), url string) {
	t.Helper()
	kill, said := ownerProcess(t, dir, env...)
	if !strings.HasPrefix(said, "postgres://") {
		t.Fatalf("the owner said: %s", said)
	}
	return kill, said
}

// ownerProcess is owner for one that may fail: it returns the URL or the error.
func ownerProcess(t *testing.T, dir string, env ...string) (kill func(), said string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), ownerVariable+"="+dir), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	t.Cleanup(kill)
	said, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the owner said %q: %v", said, err)
	}
	return kill, strings.TrimSpace(said)
}

// start starts a server that is stopped at the end of the test.
func start(t *testing.T, c postgres.Config) *postgres.Server {
	t.Helper()
	c.Fast = true
	s, err := postgres.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *postgres.Server) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// query returns the one text value of a query.
func query(t *testing.T, url, sql string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.Background())
	var value string
	err = conn.QueryRow(ctx, sql).Scan(&value)
	return value, err
}

// run runs a statement.
func run(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func want(t *testing.T, url, sql, value string) {
	t.Helper()
	got, err := query(t, url, sql)
	if err != nil || got != value {
		t.Errorf("%s = %q, %v; want %q", sql, got, err, value)
	}
}

// serverPID reads the process id of a directory's server.
func serverPID(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
