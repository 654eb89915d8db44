package doctor_test

import (
	"context"
	"testing"

	"github.com/inboxd/inboxd/internal/doctor"
	"github.com/inboxd/inboxd/internal/pgtest"
)

// The servers of tests do without these.
func TestSettings(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.says("settings", doctor.Warning, "fsync is off: a crash of the machine can destroy the database",
		"alter system set fsync = on;\n")
}

func TestEncoding(t *testing.T) {
	t.Parallel()
	w := admit(t)
	var name string
	must(t, w.pool.QueryRow(t.Context(), `select current_database() || '_ascii'`).Scan(&name))
	w.exec(`create database ` + name + ` encoding 'SQL_ASCII' locale 'C' template template0`)
	t.Cleanup(func() { // after the pool on it was closed
		if _, err := w.pool.Exec(context.WithoutCancel(t.Context()), `drop database `+name); err != nil {
			t.Error(err)
		}
	})
	config := w.pool.Config().Copy()
	config.ConnConfig.Database = name
	w.Pool = pgtest.PoolConfig(t, config)
	w.says("server", doctor.Failed, "has the encoding SQL_ASCII, and inboxd needs UTF8", "create database inboxd_utf8 encoding 'UTF8' template template0;")
}

// TestNothingIsCounted: autovacuum goes by what is counted, and can be switched
// off for one database by that.
func TestNothingIsCounted(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.exec(`do $$ begin execute format('alter database %I set track_counts = off', current_database()); end $$`)
	w.Pool = pgtest.Pool(t, w.url)
	w.says("vacuum", doctor.Failed, "autovacuum is off on the server", "alter system set track_counts = on;")
}
