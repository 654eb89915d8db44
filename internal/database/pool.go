package database

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ApplicationName is how the sessions call themselves, unless the URL or
// PGAPPNAME has another name.
const ApplicationName = "inboxd"

// Config says which database is meant.
type Config struct {
	// URL is a connection string in the form of a URL or of keywords and
	// values; what it leaves out comes from PG* variables.
	URL string
	// MaxConnections bounds the pool. 0: the URL's pool_max_conns, else the
	// driver's default.
	MaxConnections int
}

// connectTimeout bounds one attempt to connect to one host, unless the URL says
// otherwise.
const connectTimeout = 10 * time.Second

// How a connection without traffic is probed, and how long sent data may go
// without an answer.
var (
	keepAlive   = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}
	userTimeout = 15 * time.Second
)

// Open makes a pool. It connects to nothing: the first use of the pool does.
func Open(c Config) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	if c.MaxConnections > 0 {
		pc.MaxConns = int32(min(c.MaxConnections, 100_000))
	}
	pc.MaxConnLifetimeJitter = 5 * time.Minute
	prepare(&pc.ConnConfig.Config)
	if !choosesMode(c.URL) {
		m := &modes{}
		pc.BeforeConnect, pc.AfterConnect, pc.PrepareConn = m.choose, m.begin, m.keep
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), pc)
	if err != nil {
		return nil, fmt.Errorf("open the pool: %w", err)
	}
	return pool, nil
}

// Connect opens one connection, as the pool's are opened.
func Connect(ctx context.Context, url string) (*pgx.Conn, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("read the database's URL: %w", err)
	}
	prepare(&c.Config)
	return pgx.ConnectConfig(ctx, c)
}

// choosesMode reports whether a URL says how statements are run.
func choosesMode(url string) bool {
	c, err := pgconn.ParseConfig(url) // which leaves what is pgx's alone
	return err == nil && c.RuntimeParams["default_query_exec_mode"] != ""
}

// prepare completes a configuration of pgx, for the pool's connections and for
// those that are opened beside it with the same configuration.
func prepare(c *pgconn.Config) {
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = ApplicationName
	}
	dialer := &net.Dialer{Timeout: c.ConnectTimeout, KeepAliveConfig: keepAlive, Control: control}
	c.DialFunc = dialer.DialContext
	before := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		return settle(ctx, conn, needed, welcome)
	}
}

// needed puts right what would break a guarantee.
var needed = []string{
	`set_config('default_transaction_isolation', 'read committed', false)`,
	`case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', false) end`,
}

// welcome is what a server may not have, or a system not support.
var welcome = []string{
	`set_config('client_connection_check_interval', '2s', false)`,
	`set_config('tcp_keepalives_idle', '10', false)`,
	`set_config('tcp_keepalives_interval', '5', false)`,
	`set_config('tcp_keepalives_count', '3', false)`,
	`set_config('tcp_user_timeout', '15s', false)`,
}

// settle sets a new session's settings: in one round trip, and one by one with a
// server that refuses some of them. A session behind a pooler is looked at, and
// left as it is.
func settle(ctx context.Context, conn *pgconn.PgConn, needed, welcome []string) error {
	own, err := set(ctx, conn, slices.Concat(needed, welcome)...)
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		own, err = setOneByOne(ctx, conn, needed, welcome)
	}
	if err != nil {
		return err
	}
	conn.CustomData()[poolerKey] = !own
	if !own {
		return checkPooled(ctx, conn)
	}
	return nil
}

func setOneByOne(ctx context.Context, conn *pgconn.PgConn, needed, welcome []string) (own bool, err error) {
	if own, err = set(ctx, conn, needed...); err != nil {
		return own, err
	}
	for _, setting := range welcome {
		var refusal *pgconn.PgError
		if _, err := set(ctx, conn, setting); err != nil && !errors.As(err, &refusal) {
			return own, err
		}
	}
	return own, nil
}

// set does nothing unless the session is this client's own: the server and the
// client then have one number for it.
func set(ctx context.Context, conn *pgconn.PgConn, settings ...string) (own bool, err error) {
	sql := "select " + strings.Join(settings, ", ") + " where pg_backend_pid()::bigint = $1::bigint"
	result := conn.ExecParams(ctx, sql, [][]byte{strconv.AppendUint(nil, uint64(conn.PID()), 10)}, nil, nil, nil).Read()
	if result.Err != nil {
		return false, fmt.Errorf("set the session's settings: %w", result.Err)
	}
	return len(result.Rows) > 0, nil
}
