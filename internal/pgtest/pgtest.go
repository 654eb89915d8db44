package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/internal/postgres"
)

// T is what this package needs of a *testing.T or *testing.B. Fatalf does not return.
type T interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// closeTimeout is how long a pool waits at the end of a test for connections that were not returned.
const closeTimeout = 10 * time.Second

// Database returns the URL of a fresh, empty database, which is dropped when the test ends, with
// whatever is still connected to it.
func Database(t T) string {
	t.Helper()
	start(t)
	return database(t, "template0")
}

func start(t T) {
	t.Helper()
	if err := shared.start(); err != nil {
		t.Fatalf("this test needs PostgreSQL: %v", err)
	}
}

// database makes a copy of a template for the test.
func database(t T, template string) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	if err := shared.create(name, template); err != nil {
		t.Fatalf("create a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := shared.drop(name); err != nil {
			t.Errorf("drop the database of the test: %v", err)
		}
	})
	address, err := withDatabase(shared.url, name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return address
}

func (h *harness) create(name, template string) error {
	return h.exec("create database " + pgx.Identifier{name}.Sanitize() + " template " + pgx.Identifier{template}.Sanitize())
}

func (h *harness) drop(name string) error {
	return h.exec("drop database " + pgx.Identifier{name}.Sanitize() + " with (force)")
}

// exec runs one statement on the maintenance database.
func (h *harness) exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := h.admin.Exec(ctx, sql)
	return err
}

// withDatabase returns the URL of another database on the same server.
func withDatabase(address, name string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" {
		return "", fmt.Errorf("%s has to be a URL such as postgres://user@host:5432/postgres", URLVariable)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Pool returns a pool of connections to a database, which is closed when the test ends. A connection
// that was not returned by then fails the test.
func Pool(t T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatalf("open a pool: %v", err)
	}
	return PoolConfig(t, config)
}

// PoolConfig is Pool for a configuration of the test's own.
func PoolConfig(t T, config *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("open a pool: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

func closePool(t T, pool *pgxpool.Pool) {
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
func Server(t T, configure ...func(*postgres.Config)) *postgres.Server {
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
func Dir(t T) string {
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
