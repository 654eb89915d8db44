package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/inboxd/inboxd/internal/postgres"
)

// URLVariable is the environment variable that names a server to use in place of an embedded one.
const URLVariable = "INBOXD_TEST_DATABASE_URL"

// startTimeout bounds the start of the embedded server, with a download if PostgreSQL is not installed.
const startTimeout = 5 * time.Minute

// stopTimeout bounds the stop of a server.
const stopTimeout = 30 * time.Second

// Main runs the tests of a package and ends the process: TestMain calls it and nothing else.
func Main(m interface{ Run() int }, options ...goleak.Option) { os.Exit(Run(m, options...)) }

// Run is Main for who ends the process himself: it runs the tests, stops the server, looks for goroutines that
// were left, and returns the exit status.
func Run(m interface{ Run() int }, options ...goleak.Option) int {
	status := m.Run()
	if err := Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		status = max(status, 1)
	}
	if status != 0 {
		return status // a failed test may have left anything
	}
	if err := goleak.Find(options...); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: goroutines are left after the tests:", err)
		return 1
	}
	return 0
}

// Stop stops the server if one was started; no test may need one afterwards. It is for who runs the
// tests himself, without Main and Run.
func Stop() error { return shared.stop() }

// shared is the server of this process.
var shared harness

// harness is a server on which databases are created.
type harness struct {
	once   sync.Once
	err    error            // why there is no server
	url    string           // of the server's maintenance database
	server *postgres.Server // nil when the server is not embedded
	admin  *pgxpool.Pool    // creates and drops databases

	templatesMu sync.Mutex
	templates   map[string]*template
}

// start starts the server at the first call.
func (h *harness) start() error {
	h.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		h.err = h.connect(ctx)
	})
	return h.err
}

func (h *harness) connect(ctx context.Context) error {
	h.url = os.Getenv(URLVariable)
	if h.url == "" {
		server, err := postgres.Start(ctx, postgres.Config{Fast: true, Reuse: true})
		if err != nil {
			return err
		}
		h.server, h.url = server, server.URL()
	}
	config, err := pgxpool.ParseConfig(h.url)
	if err != nil {
		return fmt.Errorf("%s: %w", URLVariable, err)
	}
	config.MaxConns = 4
	if h.admin, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if err := h.admin.Ping(ctx); err != nil {
		return fmt.Errorf("reach the server of %s: %w", URLVariable, err)
	}
	return nil
}

// stop stops what start has started.
func (h *harness) stop() error {
	if h.admin != nil {
		h.admin.Close()
	}
	if h.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return h.server.Stop(ctx)
}
