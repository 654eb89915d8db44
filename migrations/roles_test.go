package migrations_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const schema = "inboxd"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	must(t, err)
}

// roles is a migrated database whose roles were made.
type roles struct {
	url   string
	super *pgx.Conn
	names migrations.RoleNames
}

func withRoles(t *testing.T) *roles {
	t.Helper()
	r := &roles{names: migrations.DefaultRoleNames(pgtest.RolePrefix(t) + "Shop")} // a name to be quoted
	r.url = pgtest.Database(t)
	r.super = connect(t, r.url)
	_, _, err := migrations.Up(t.Context(), r.super, schema)
	must(t, err)
	r.script(t, r.super)
	return r
}

func (r *roles) script(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	script, err := migrations.RolesScript(schema, r.names)
	must(t, err)
	run(t, conn, script)
}

func (r *roles) as(t *testing.T, name string) *pgx.Conn {
	t.Helper()
	return connect(t, pgtest.As(t, r.url, name))
}

func state(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

const insufficient = "42501"

// TestEveryTableHasItsPlaceInTheRoles: whoever adds a table says who writes to it.
func TestEveryTableHasItsPlaceInTheRoles(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.Database(t))
	_, _, err := migrations.Up(t.Context(), conn, schema)
	must(t, err)
	rows, err := conn.Query(t.Context(), `select c.relname::text from pg_class c
where c.relnamespace = 'inboxd'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition order by 1`)
	must(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	var known []string
	for _, g := range migrations.Grants(migrations.Read) {
		known = append(known, g.Table)
	}
	if slices.Sort(known); !slices.Equal(known, tables) {
		t.Errorf("the roles know the tables %v; there are %v", known, tables)
	}
}

// TestRolesMayDoTheirWorkAndNoMore also holds that what belongs to nobody's work,
// changing what was stored, is nobody's right.
func TestRolesMayDoTheirWorkAndNoMore(t *testing.T) {
	t.Parallel()
	r := withRoles(t)
	uses := map[string]migrations.Use{
		r.names.Runtime: migrations.Serve, r.names.Operator: migrations.Operate, r.names.Reader: migrations.Read,
	}
	for name, use := range uses {
		conn := r.as(t, name)
		if lacks, err := migrations.Lacks(t.Context(), conn, schema, use); err != nil || len(lacks) > 0 {
			t.Errorf("%s lacks %v, %v", use, lacks, err)
		}
		for _, sql := range []string{
			`drop table inboxd.staged`, `alter table inboxd.lanes add column x text`, `truncate inboxd.inbox`,
			`create table inboxd.mine ()`, `create index on inboxd.lanes (attempts)`, `drop function inboxd.in_turn()`,
			`update inboxd.inbox set payload = ''`, `delete from inboxd.inbox_1`, `update inboxd.audit set reason = ''`,
			`delete from inboxd.audit`, `delete from inboxd.runs`, `update inboxd.schema_version set version = 0`,
			`select inboxd.open_segment()`, `create or replace function inboxd.in_turn() returns void language sql as ''`,
		} {
			if _, err := conn.Exec(t.Context(), sql); state(err) != insufficient {
				t.Errorf("%s: %s: %v", use, sql, err)
			}
		}
	}
	reader := r.as(t, r.names.Reader)
	for _, sql := range []string{
		`update inboxd.lanes set attempts = 0`, `insert into inboxd.audit (actor, action) values ('x', 'x')`,
		`select inboxd.change(1, 'retry', null, null, 'x', null)`, `delete from inboxd.quarantine`, `select from inboxd.lanes for update`,
	} {
		if _, err := reader.Exec(t.Context(), sql); state(err) != insufficient {
			t.Errorf("reader: %s: %v", sql, err)
		}
	}
	if lacks, err := migrations.Lacks(t.Context(), reader, schema, migrations.Operate); err != nil || len(lacks) == 0 {
		t.Errorf("a reader lacks nothing to operate: %v", err)
	}
}

// TestMigratorGoesOnAlone: after the first time no superuser is needed, and what
// the migrator adds can be read at once.
func TestMigratorGoesOnAlone(t *testing.T) {
	t.Parallel()
	r := withRoles(t)
	migrator, reader, runtime := r.as(t, r.names.Migrator), r.as(t, r.names.Reader), r.as(t, r.names.Runtime)
	_, to, err := migrations.Up(t.Context(), migrator, schema)
	if err != nil || to != migrations.Version {
		t.Fatalf("up: version %d, %v", to, err)
	}
	run(t, migrator, `create table inboxd.later (n int); select inboxd.open_segment()`)
	run(t, reader, `select from inboxd.later; select from inboxd.inbox_2`)
	run(t, runtime, `insert into inboxd.runs values (1, 1, 1, now(), 0, 1, 2, 'r')`)
	var strangers int
	must(t, migrator.QueryRow(t.Context(), `select count(*) from pg_class
where relnamespace = 'inboxd'::regnamespace and relowner <> (select oid from pg_roles where rolname = current_user)`).Scan(&strangers))
	if strangers > 0 {
		t.Errorf("%d tables belong to others than the migrator", strangers)
	}
	run(t, migrator, `grant delete on inboxd.audit to `+pgx.Identifier{r.names.Operator}.Sanitize())
	r.script(t, migrator)
	var may bool
	must(t, r.super.QueryRow(t.Context(), `select has_table_privilege($1, 'inboxd.audit', 'delete')`, r.names.Operator).Scan(&may))
	if may {
		t.Error("the script leaves a privilege that is not its")
	}
}

// TestRolesOfAManagedServer: whoever makes the roles need not be a superuser.
func TestRolesOfAManagedServer(t *testing.T) {
	t.Parallel()
	prefix := pgtest.RolePrefix(t)
	url := pgtest.Database(t)
	super := connect(t, url)
	owner := pgx.Identifier{prefix + "owner"}.Sanitize()
	run(t, super, `create role `+owner+` createrole login`)
	run(t, super, `do $$ begin execute format('alter database %I owner to %I', current_database(), '`+prefix+`owner'); end $$`)
	conn := connect(t, pgtest.As(t, url, prefix+"owner"))
	_, _, err := migrations.Up(t.Context(), conn, schema)
	must(t, err)
	r := &roles{url: url, names: migrations.DefaultRoleNames(prefix)}
	r.script(t, conn)
	r.script(t, conn)
	run(t, r.as(t, r.names.Reader), `select from inboxd.lanes`)
}

func TestRolesScriptRefusesNames(t *testing.T) {
	t.Parallel()
	good := migrations.DefaultRoleNames("s")
	for want, change := range map[string]func(*migrations.RoleNames){
		"has no name":    func(n *migrations.RoleNames) { n.Reader = "" },
		"takes 63":       func(n *migrations.RoleNames) { n.Reader = strings.Repeat("x", 64) },
		"a line break":   func(n *migrations.RoleNames) { n.Runtime = "a\ndrop" },
		"two roles have": func(n *migrations.RoleNames) { n.Operator = n.Reader },
	} {
		names := good
		change(&names)
		if _, err := migrations.RolesScript("s", names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", names, err, want)
		}
	}
	if script, err := migrations.RolesScript(`o'"dd`, migrations.DefaultRoleNames(`o'"dd`)); err != nil || !strings.Contains(script, `"o'""dd_reader"`) {
		t.Errorf("a name with quotes: %v", err)
	}
}

func TestDatabaseMustBeUTF8(t *testing.T) {
	t.Parallel()
	super := connect(t, pgtest.Database(t))
	var base string
	must(t, super.QueryRow(t.Context(), `select current_database()`).Scan(&base))
	name := pgx.Identifier{base + "_latin"}.Sanitize()
	run(t, super, `create database `+name+` encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`)
	t.Cleanup(func() { _, _ = super.Exec(context.Background(), `drop database `+name+` with (force)`) })
	config := super.Config().Copy()
	config.Database = base + "_latin"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	must(t, err)
	defer conn.Close(context.Background())
	_, _, err = migrations.Up(t.Context(), conn, schema)
	var wrong *migrations.EncodingError
	if !errors.As(err, &wrong) || wrong.Encoding != "LATIN1" {
		t.Errorf("up: %v", err)
	}
}
