package ordering

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A handler may leave traces in its session that outlive its transaction:
// settings, a role, temporary tables, advisory locks. They would meet the next
// event. Each turn therefore ends by putting the session back, in the same
// piece as the commit; a rollback undoes the first three by itself.

// resetSession leaves prepared statements alone, which discard all would not.
var resetSession = []string{"reset session authorization", "reset all", "discard temp"}

// setting is one that the pool's owner made on a new connection; it is made
// again after each reset.
type setting struct{ name, value string }

const settingsKey = "inboxd settings"

// ownSettings are those that were made by statements, after the connection was
// opened; those of the connection string survive a reset.
const ownSettings = `select name, setting from pg_settings where source = 'session'`

// rememberSettings reads, once a connection, the settings that its owner made.
func rememberSettings(ctx context.Context, conn *pgx.Conn) error {
	if _, ok := conn.PgConn().CustomData()[settingsKey]; ok {
		return nil
	}
	rows, err := conn.Query(ctx, ownSettings)
	if err != nil {
		return fmt.Errorf("read the session's settings: %w", err)
	}
	settings, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (setting, error) {
		var s setting
		err := row.Scan(&s.name, &s.value)
		return s, err
	})
	if err != nil {
		return fmt.Errorf("read the session's settings: %w", err)
	}
	conn.PgConn().CustomData()[settingsKey] = settings
	return nil
}

func settingsOf(conn *pgx.Conn) []setting {
	settings, _ := conn.PgConn().CustomData()[settingsKey].([]setting)
	return settings
}

// reset gathers what puts the session back.
func (t *turn) reset() {
	for _, sql := range resetSession {
		t.gather(owner{index: -1}, sql)
	}
	if len(t.settings) == 0 {
		return
	}
	names, values := make([]string, len(t.settings)), make([]string, len(t.settings))
	for i, s := range t.settings {
		names[i], values[i] = s.name, s.value
	}
	t.gather(owner{index: -1}, restoreSettings, names, values)
}

const restoreSettings = `select set_config(name, value, false) from unnest($1::text[], $2::text[]) s(name, value)`
