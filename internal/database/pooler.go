package database

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Behind reports whether a pooler such as PgBouncer stands between conn and the
// server: it gives sessions numbers of its own. That was found when the
// connection was opened, by this package.
func Behind(conn *pgconn.PgConn) bool {
	pooler, _ := conn.CustomData()[poolerKey].(bool)
	return pooler
}

const poolerKey = "inboxd pooler"

// ErrSettings is why a connection through a pooler is not used: its sessions
// come with settings that would break guarantees, and are not this client's
// own to put right.
var ErrSettings = errors.New("sessions behind a connection pooler come with settings that inboxd cannot work with")

// settingsError names them.
type settingsError struct{ sync, isolation, role string }

func (e *settingsError) Error() string {
	return fmt.Sprintf("%s: synchronous_commit is %s and default_transaction_isolation is %s", ErrSettings, e.sync, e.isolation)
}

func (e *settingsError) Unwrap() error { return ErrSettings }

// remedy are the statements that put them right.
func (e *settingsError) remedy() string {
	return fmt.Sprintf("alter role %[1]s set synchronous_commit = 'on'; alter role %[1]s set default_transaction_isolation = 'read committed'; then have the pooler reconnect",
		pgx.Identifier{e.role}.Sanitize())
}

// pooledSQL reads what settle puts right in a session of its own.
const pooledSQL = `select current_setting('synchronous_commit'), current_setting('default_transaction_isolation'), current_user`

// checkPooled looks at what a pooler's sessions come with. It sets nothing: the
// next statement may run in another session, and this one be somebody else's.
func checkPooled(ctx context.Context, conn *pgconn.PgConn) error {
	result := conn.ExecParams(ctx, pooledSQL, nil, nil, nil, nil).Read()
	if result.Err != nil {
		return fmt.Errorf("read the session's settings: %w", result.Err)
	}
	row := result.Rows[0]
	if e := (&settingsError{string(row[0]), string(row[1]), string(row[2])}); e.sync == "off" || e.isolation != "read committed" {
		return e
	}
	return nil
}

// modes chooses how the pool's connections run statements. Prepared statements
// are a session's own, which a pooler in transaction mode does not give (unless
// it follows them, as PgBouncer does from 1.21 on): behind one, statements are
// parsed anew each time.
type modes struct {
	direct atomic.Bool // the last connection that was opened has a session of its own
}

// choose is for the pool before it connects. Before anything is known, the mode
// is the one that works with both.
func (m *modes) choose(_ context.Context, c *pgx.ConnConfig) error {
	if !m.direct.Load() {
		c.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return nil
}

// usesKey counts how often a connection was taken that could prepare, and does
// not, since it was opened before that was known.
const usesKey = "inboxd uses"

// firstUses is how often such a connection is taken before another one replaces
// it: a command that asks a few questions keeps its only connection.
const firstUses = 50

// begin is for the pool when it has a new connection.
func (m *modes) begin(_ context.Context, conn *pgx.Conn) error {
	pooler := Behind(conn.PgConn())
	m.direct.Store(!pooler)
	if !pooler && conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe {
		conn.PgConn().CustomData()[usesKey] = new(int)
	}
	return nil
}

// keep is for the pool when a connection is taken; false: take another one.
func (m *modes) keep(_ context.Context, conn *pgx.Conn) (bool, error) {
	uses, ok := conn.PgConn().CustomData()[usesKey].(*int)
	if !ok {
		return true, nil
	}
	*uses++
	return *uses <= firstUses, nil
}
