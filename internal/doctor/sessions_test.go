package doctor_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/doctor"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
)

// session opens a session apart from the pool, for the time of the test.
func (w *ward) session(address string) *pgx.Conn {
	w.Helper()
	conn, err := pgx.Connect(w.Context(), address)
	must(w.T, err)
	w.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (w *ward) in(conn *pgx.Conn, sql string) {
	w.Helper()
	_, err := conn.Exec(w.Context(), sql)
	must(w.T, err)
}

func TestPrivileges(t *testing.T) {
	t.Parallel()
	names := migrations.DefaultRoleNames(pgtest.RolePrefix(t) + "s")
	w := admit(t)
	w.says("privileges", doctor.OK, "may serve, operate, read; a superuser: see", "")
	script, err := migrations.RolesScript("inboxd", names)
	must(t, err)
	w.exec(script)
	as := func(role string) {
		t.Helper()
		w.Pool = pgtest.Pool(t, pgtest.As(t, w.url, role))
	}
	as(names.Migrator)
	w.says("privileges", doctor.OK, "the owner of the schema: see", "")
	as(names.Operator)
	w.says("privileges", doctor.OK, names.Operator+" may operate, read", "")
	as(names.Reader)
	w.says("privileges", doctor.OK, names.Reader+" may read", "")
	w.Use = migrations.Operate
	w.says("privileges", doctor.Failed, names.Reader+" may not operate; it lacks insert, update on aggregates; insert on audit",
		`grant insert, update on "inboxd"."aggregates" to "`+names.Reader+`";`)
	w.Use = ""
	as(names.Runtime)
	w.says("privileges", doctor.OK, names.Runtime+" may serve, read", "")
	w.exec(`revoke insert on inboxd.breakers from ` + names.Runtime)
	w.says("privileges", doctor.Failed, "looks like a role to serve, but lacks insert on breakers",
		`grant insert on "inboxd"."breakers" to "`+names.Runtime+`";`)
	w.exec(`revoke usage on schema inboxd from ` + names.Reader)
	as(names.Reader)
	w.says("privileges", doctor.Failed, "lacks usage on the schema", `grant usage on schema "inboxd" to "`+names.Reader+`";`)
}

func TestSnapshots(t *testing.T) {
	t.Parallel()
	prefix := pgtest.RolePrefix(t)
	w := admit(t)
	conn := w.session(w.url)
	w.in(conn, `begin isolation level repeatable read; select 1`)
	w.says("snapshots", doctor.OK, "no snapshot is older than 60m", "")
	judge(t, doctor.Ask(t.Context(), w.Options, "snapshots", time.Microsecond), doctor.Warning, "idle in transaction, for 0s", "select pg_terminate_backend(")

	// What it does is hidden from a role that is not told.
	w.exec(`create role ` + prefix + `r login; grant usage on schema inboxd to ` + prefix + `r`)
	w.Pool = pgtest.Pool(t, pgtest.As(t, w.url, prefix+"r"))
	w.says("snapshots", doctor.Warning, "is hidden", `grant pg_read_all_stats to "`+prefix+`r";`)
	w.exec(`grant pg_read_all_stats to ` + prefix + `r`)
	w.says("snapshots", doctor.OK, "no snapshot", "")
}

func TestLaneLocks(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.put("Paid")
	reader, holder := w.session(w.url), w.session(w.url)
	w.in(reader, `begin; select from inboxd.lanes`) // holds no lane
	w.says("lane locks", doctor.OK, "no idle transaction holds a lane for longer than lanes.handler_timeout (30s)", "")
	w.in(holder, `begin; select from inboxd.lanes for update`)
	w.says("lane locks", doctor.OK, "no idle transaction", "")
	w.Config.Lanes.HandlerTimeout = time.Microsecond
	w.says("lane locks", doctor.Warning, "lanes are locked by 1 session", "select pg_terminate_backend(")
	w.in(holder, `commit`)
	w.says("lane locks", doctor.OK, "no idle transaction", "")
}

// TestPooler puts something in between that has session numbers of its own and
// passes no notification on, as a pooler does in transaction mode.
func TestPooler(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.Pool = pgtest.Pool(t, pgtest.Pooler(t, w.url))
	w.says("pooler", doctor.Warning, "something like PgBouncer", "inboxd config print")
	w.Limit = time.Second // half of it is waited for the notification
	w.says("listen", doctor.Warning, "did not arrive", "inboxd config print")
	w.Limit = time.Minute
	w.Config.Database.DirectURL = w.url
	w.says("pooler", doctor.OK, "something like PgBouncer seems to stand before the server; LISTEN, migrations and dry runs go past it", "")
	w.says("listen", doctor.OK, "a notification arrived within", "")
}

// TestDirectURL has it lead nowhere, and to another database.
func TestDirectURL(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.Config.Database.DirectURL = "postgres://somebody@127.0.0.1:1/shop?sslmode=disable"
	w.says("listen", doctor.Failed, "database.direct_url leads nowhere: no PostgreSQL answers at 127.0.0.1:1", "inboxd config print")
	w.Config.Database.DirectURL = pgtest.Database(t)
	w.Limit = time.Second // half of it is waited for the notification
	w.says("listen", doctor.Warning, "database.direct_url has to lead to the same database as database.url", "inboxd config print")
}
