package inboxtest

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/pgtest"
)

// Kit is a test's own database with inboxd in it, and what a test does with it.
// Its methods may be called from several goroutines, except Add and those that
// run lanes. What goes wrong in them fails the test.
type Kit struct {
	t       T
	options Options
	url     string
	pool    *pgxpool.Pool
	side    *pgxpool.Pool // for the kit's own questions, out of sight of the probe
	probe   *probe
	began   time.Time // by the server's clock
	added   int       // events that Add has named
	elapsed time.Duration
	held    held
}

// New makes a database for the test, which is dropped when the test ends. It
// takes some tens of milliseconds; the first one of a process starts the server.
// Tests that use it may be parallel, and so may packages.
func New(t T, o Options) *Kit {
	t.Helper()
	o = o.withDefaults()
	k := &Kit{t: t, options: o, probe: newProbe()}
	k.url = pgtest.Prepared(t, o.key(), o.fill)
	k.pool = pgtest.PoolConfig(t, k.poolConfig())
	k.side = pgtest.PoolConfig(t, k.config())
	ctx, cancel := k.context()
	defer cancel()
	if o.Prepare != nil {
		if err := o.Prepare(ctx, k.pool); err != nil {
			t.Fatalf("prepare the database of the test: %v", err)
		}
	}
	k.began = Get[time.Time](k, "select clock_timestamp()")
	return k
}

func (k *Kit) config() *pgxpool.Config {
	k.t.Helper()
	config, err := pgxpool.ParseConfig(k.url)
	if err != nil {
		k.t.Fatalf("open a pool: %v", err)
	}
	return config
}

// poolConfig is that of the pool that handlers and lanes use.
func (k *Kit) poolConfig() *pgxpool.Config {
	k.t.Helper()
	config := k.config()
	config.MaxConns = int32(k.options.Config.Workers) + 8
	if k.options.Pool != nil {
		k.options.Pool(config)
	}
	if theirs := config.ConnConfig.Tracer; theirs != nil {
		config.ConnConfig.Tracer = multitracer.New(theirs, k.probe)
	} else {
		config.ConnConfig.Tracer = k.probe
	}
	theirs := config.ConnConfig.AfterNetConnect
	config.ConnConfig.AfterNetConnect = func(ctx context.Context, c *pgconn.Config, conn net.Conn) (net.Conn, error) {
		if theirs != nil {
			var err error
			if conn, err = theirs(ctx, c, conn); err != nil {
				return nil, err
			}
		}
		return &wire{Conn: conn}, nil
	}
	return config
}

// Pool is the pool that lanes are run with. It is closed when the test ends.
func (k *Kit) Pool() *pgxpool.Pool { return k.pool }

// URL leads to the test's database, for what brings its own connections.
func (k *Kit) URL() string { return k.url }

// Schema is where inboxd's tables are.
func (k *Kit) Schema() string { return k.options.Schema }

// Store stores events in the test's inbox.
func (k *Kit) Store() *inbox.Store { return inbox.NewStore(k.pool, k.options.Schema) }

// Admin is what an operator does to the test's lanes.
func (k *Kit) Admin() *admin.Admin { return admin.New(k.side, k.options.Schema) }

// Exec runs a statement, or several without arguments.
func (k *Kit) Exec(sql string, args ...any) {
	k.t.Helper()
	ctx, cancel := k.context()
	defer cancel()
	if _, err := k.side.Exec(ctx, sql, args...); err != nil {
		k.t.Fatalf("%v, in: %s", err, sql)
	}
}

// Get reads one value.
func Get[V any](k *Kit, sql string, args ...any) V {
	k.t.Helper()
	ctx, cancel := k.context()
	defer cancel()
	var v V
	if err := k.side.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		k.t.Fatalf("%v, in: %s", err, sql)
	}
	return v
}

// context is that of one of the kit's own doings.
func (*Kit) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// patience is how long one of the kit's own doings may take, on a busy machine.
const patience = time.Minute

// in puts inboxd's schema into a statement.
func (k *Kit) in(sql string) string {
	return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{k.options.Schema}.Sanitize())
}
