package ordering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A handler may leave traces in its session that outlive its transaction:
// settings, a role, temporary tables, advisory locks. They would meet the next
// event. Each turn therefore ends by putting the session back, in the same
// piece as the commit; a rollback undoes the first three by itself.
//
// In the same piece, not after it: a pooler in transaction mode hands a session
// on when a piece has been answered and no transaction is open. What is sent
// after that reaches another session.

// resetSession leaves prepared statements alone, which discard all would not.
var resetSession = []string{"reset session authorization", "reset all", "discard temp"}

// unlockSession is for a turn that did not end with advance, which does it.
const unlockSession = "select pg_advisory_unlock_all()"

// settings are what is made again after each reset.
type settings struct{ names, values []string }

const settingsKey = "inboxd settings"

// ownSettings are those that the pool's owner made by statements, after the
// connection was opened; those of the connection string survive a reset. The
// server has another number for the session than the client when a pooler is
// between them: what this session has is then neither the client's own nor what
// the next session has.
const ownSettings = `
select pg_backend_pid()::bigint = $1,
	array(select name from pg_settings where source = 'session' order by name),
	array(select setting from pg_settings where source = 'session' order by name)`

// carried are the settings of a connection that a pooler makes in each session
// that it lends to the client, unless it heard the server say another value: a
// reset says one, and so they are made again.
var carried = []string{"application_name", "client_encoding", "datestyle", "standard_conforming_strings", "timezone"}

// rememberSettings finds, once a connection, what is made again after a reset.
func rememberSettings(ctx context.Context, conn *pgx.Conn) error {
	if _, ok := conn.PgConn().CustomData()[settingsKey]; ok {
		return nil
	}
	var direct bool
	var s settings
	if err := conn.QueryRow(ctx, ownSettings, int64(conn.PgConn().PID())).Scan(&direct, &s.names, &s.values); err != nil {
		return fmt.Errorf("read the session's settings: %w", err)
	}
	if !direct {
		s = carriedSettings(conn.Config().RuntimeParams)
	}
	conn.PgConn().CustomData()[settingsKey] = s
	return nil
}

func carriedSettings(params map[string]string) (s settings) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if slices.Contains(carried, strings.ToLower(name)) {
			s.names, s.values = append(s.names, name), append(s.values, params[name])
		}
	}
	return s
}

func settingsOf(conn *pgx.Conn) settings {
	s, _ := conn.PgConn().CustomData()[settingsKey].(settings)
	return s
}

// reset gathers what puts the session back.
func (t *turn) reset() {
	if t.taken {
		t.gather(nobody, unlockSession)
	}
	for _, sql := range resetSession {
		t.gather(nobody, sql)
	}
	if s := t.settings; len(s.names) > 0 {
		t.gather(nobody, restoreSettings, s.names, s.values)
	}
}

const restoreSettings = `select set_config(name, value, false) from unnest($1::text[], $2::text[]) s(name, value)`
