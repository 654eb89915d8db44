package cmd_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
)

// office is a database with a role for each use, and a handler that writes to a
// table of the business.
type office struct {
	*testing.T
	url    string
	names  migrations.RoleNames
	config string
	super  *pgx.Conn
	urls   map[string]string
}

func openOffice(t *testing.T) *office {
	t.Helper()
	o := &office{T: t, names: migrations.DefaultRoleNames(pgtest.RolePrefix(t) + "c"), urls: map[string]string{}}
	o.url = pgtest.Database(t)
	o.config = filepath.Join(t.TempDir(), "inboxd.yaml")
	must(os.WriteFile(o.config, []byte(`
lanes: {workers: 4, retry: {initial: 10ms, attempts: 1}}
handlers:
  Paid: {sql: insert into effects values (@event_id)}
  Broken: {sql: insert into effects values (null)}
`), 0o600))
	var err error
	if o.super, err = pgx.Connect(t.Context(), o.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.super.Close(context.Background()) })
	o.does(o.url, 0, "", "migrate", "up")
	script := o.does(o.url, 0, "", "migrate", "roles", "--migrator", o.names.Migrator,
		"--runtime", o.names.Runtime, "--operator", o.names.Operator, "--reader", o.names.Reader)
	o.sql(script)
	o.sql(`create table effects (id text not null); grant insert on effects to ` + o.names.Runtime)
	for _, role := range []string{o.names.Migrator, o.names.Runtime, o.names.Operator, o.names.Reader} {
		o.urls[role] = pgtest.As(t, o.url, role)
	}
	return o
}

func (o *office) sql(sql string) {
	o.Helper()
	if _, err := o.super.Exec(o.Context(), sql); err != nil {
		o.Fatal(err)
	}
}

// does runs one command line, which has to end with a code and say something on
// stderr, and returns its stdout.
func (o *office) does(url string, want int, says string, args ...string) string {
	o.Helper()
	return o.reads("", url, want, says, args...)
}

func (o *office) reads(stdin, url string, want int, says string, args ...string) string {
	o.Helper()
	var stdout, stderr bytes.Buffer
	code := cmd.Run(o.Context(), handlers.New(), append(args, "--config", o.config), strings.NewReader(stdin), &stdout, &stderr,
		[]string{"DATABASE_URL=" + url})
	if code != want || !strings.Contains(stderr.String(), says) {
		o.Errorf("inboxd %s: exit %d, want %d and %q\n%s%s", strings.Join(args, " "), code, want, says, stderr.String(), stdout.String())
	}
	return stdout.String()
}

// until waits until a query answers true.
func (o *office) until(query string) {
	o.Helper()
	deadline := time.After(untilLimit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var done bool
		if err := o.super.QueryRow(o.Context(), query).Scan(&done); err != nil {
			o.Fatal(err)
		}
		if done {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			o.Fatalf("never came true: %s", query)
		}
	}
}

const stream = `
{"event_id": "e1", "aggregate_id": "a", "event_type": "Paid", "payload": 1}
{"event_id": "e2", "aggregate_id": "a", "event_type": "Paid", "payload": 2}
{"event_id": "e3", "aggregate_id": "b", "event_type": "Broken", "payload": 3}
{"event_id": "e4", "aggregate_id": "b", "event_type": "Paid", "payload": 4}
{"event_id": "", "aggregate_id": "c", "event_type": "Paid"}
`

// TestServeNeedsTheRuntimeRoleAlone: it stores, listens, runs, fails, takes over
// and leaves, as a role that owns nothing.
func TestServeNeedsTheRuntimeRoleAlone(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	runtime := o.urls[o.names.Runtime]
	// One that another process has left behind.
	o.sql(`insert into inboxd.processes (name, seen_at) values ('dead', now() - interval '1 h')`)
	serve := start(t, runtime, "serve", "--config", o.config)
	serve.says(t, "running lanes only")
	o.until(`select count(*) = 1 from pg_stat_activity where usename = '` + o.names.Runtime + `' and query ilike 'listen %'`)
	o.reads(stream, runtime, 0, "1 line could not become an event", "ingest")
	o.until(`select count(*) = 2 from effects`)
	o.until(`select count(*) = 1 from inboxd.lanes where state = 'stuck'`)
	o.until(`select count(*) = 1 from inboxd.processes where name <> 'dead'`)
	if out := o.does(runtime, 0, "", "doctor", "--for", "serve"); !strings.Contains(out, o.names.Runtime+" may serve") {
		t.Errorf("doctor: %s", out)
	}
	serve.stop()
	serve.ends(t, 0)
	o.does(runtime, 0, "", "verify")
	o.until(`select count(*) = 0 from inboxd.processes`)
	o.does(runtime, 1, "may not migrate", "migrate", "up", "--config", o.config)
}

func TestOperatorsAndReadersRoles(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	operator, reader := o.urls[o.names.Operator], o.urls[o.names.Reader]
	o.reads(stream, o.urls[o.names.Runtime], 0, "", "ingest")
	o.does(o.urls[o.names.Runtime], 0, "", "serve", "--drain")
	for _, args := range []string{
		"lanes list", "lanes show b", "events list", "events show e3", "quarantine list", "quarantine show 1", "verify",
		"migrate status", "doctor --for read",
	} {
		o.does(reader, 0, "", strings.Fields(args)...)
		o.does(operator, 0, "", strings.Fields(args)...)
	}
	patch := filepath.Join(t.TempDir(), "patch.json")
	must(os.WriteFile(patch, []byte(`5`), 0o600))
	for _, args := range []string{
		"lanes pause b --reason x", "lanes resume b", "events edit e4 --reason x --payload " + patch, "events edit e4 --revert", "lanes retry b --reason x",
		"lanes skip b --event e3 --reason x", "quarantine discard 1 --reason x --yes", "lanes replay a --from e1 --reason x --yes",
	} {
		o.does(reader, 1, "the role "+o.names.Reader+" lacks ", strings.Fields(args)...)
		o.does(reader, 1, "see inboxd doctor, which prints the SQL", strings.Fields(args)...)
		o.does(operator, 0, "", strings.Fields(args)...)
	}
	o.until(`select count(*) = 8 from inboxd.audit`)
	o.does(reader, 0, "", "audit", "list")
	o.does(reader, 0, "", "errors", "list")
	o.does(o.urls[o.names.Runtime], 0, "", "serve", "--drain")
	o.until(`select count(*) = 5 from effects`) // e1 and e2 twice, and e4
	o.does(reader, 0, "", "verify")

	o.does(reader, 1, "the role "+o.names.Reader+" may not serve; it lacks insert, update on aggregates", "serve")
	o.does(operator, 1, "insert, update, delete on processes", "serve", "--drain")
	if out := o.does(reader, 1, "1 check failed", "doctor", "--for", "operate"); !strings.Contains(out, `grant insert on "inboxd"."audit" to "`+o.names.Reader+`";`) {
		t.Errorf("doctor --for operate: %s", out)
	}
}

func TestMigrateUpRefusesOtherEncodings(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	super, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = super.Close(context.Background()) })
	latin := super.Config().Database + "_latin"
	if _, err := super.Exec(t.Context(), `create database `+latin+` encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = super.Exec(context.Background(), `drop database `+latin+` with (force)`) })
	url = strings.Replace(url, "/"+super.Config().Database, "/"+latin, 1)
	code, stderr := run(t, &bytes.Buffer{}, []string{"DATABASE_URL=" + url}, "migrate", "up")
	want := "inboxd: the database \"" + latin + "\" has the encoding LATIN1, and inboxd needs UTF8\n" +
		"hint: create another one: create database " + latin + "_utf8 encoding 'UTF8' template template0\n"
	if code != 1 || stderr != want {
		t.Errorf("exit %d: %s", code, stderr)
	}
	var out bytes.Buffer
	if code, _ := run(t, &out, []string{"DATABASE_URL=" + url}, "doctor", "-o", "jsonl"); code != 1 || !strings.Contains(out.String(),
		`{"check":"server","status":"failed","detail":"the database has the encoding LATIN1, and inboxd needs UTF8","remedy":"create database`) {
		t.Errorf("doctor: exit %d: %s", code, out.String())
	}
}
