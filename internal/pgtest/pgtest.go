package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/internal/postgres"
)

// closeTimeout is how long a pool waits at the end of a test for connections that were not returned.
const closeTimeout = 10 * time.Second

// Database returns the URL of a fresh, empty database, which is dropped when the test ends, with
// whatever is still connected to it.
func Database(t testing.TB) string {
	t.Helper()
	if err := shared.start(); err != nil {
		t.Fatalf("this test needs PostgreSQL: %v", err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	if err := shared.exec("create database " + pgx.Identifier{name}.Sanitize() + " template template0"); err != nil {
		t.Fatalf("create a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := shared.exec("drop database " + pgx.Identifier{name}.Sanitize() + " with (force)"); err != nil {
			t.Errorf("drop the database of the test: %v", err)
		}
	})
	return withDatabase(t, shared.url, name)
}

// exec runs one statement on the maintenance database.
func (h *harness) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := h.admin.Exec(ctx, sql)
	return err
}

// withDatabase returns the URL of another database on the same server.
func withDatabase(t testing.TB, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		t.Fatalf("%s has to be a URL such as postgres://user@host:5432/postgres", URLVariable)
	}
	u.Path = "/" + name
	return u.String()
}

// Pool returns a pool of connections to a database, which is closed when the test ends. A connection
// that was not returned by then fails the test.
func Pool(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("open a pool: %v", err)
	}
	return PoolConfig(t, config)
}

// PoolConfig is Pool for a configuration of the test's own.
func PoolConfig(t testing.TB, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("open a pool: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

func closePool(t testing.TB, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
		t.Errorf("%d connections of the pool were not returned by the end of the test", pool.Stat().AcquiredConns())
	}
}

// Server returns a server that belongs to the test alone, to be killed, restarted or paused, and is
// stopped when the test ends. Each configure may change its configuration. It is embedded even
// when INBOXD_TEST_DATABASE_URL is set.
func Server(t testing.TB, configure ...func(*postgres.Config)) *postgres.Server {
	t.Helper()
	config := postgres.Config{Fast: true, Reuse: true}
	for _, change := range configure {
		change(&config)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := postgres.Start(ctx, config)
	if err != nil {
		t.Fatalf("this test needs a PostgreSQL server of its own: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Errorf("stop the server of the test: %v", err)
		}
	})
	return server
}

// Dir returns a temporary directory for the data of a server. Unlike that of t.TempDir, the
// server can reach it when the tests run as root, and it is in memory if it can be.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(postgres.Scratch(), "inboxd-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatalf("make a directory for a server: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the directory of a server: %v", err)
		}
	})
	return dir
}
