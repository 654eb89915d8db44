package doctor_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/doctor"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
)

// The Kafka client's metrics keep one goroutine for the life of the process.
func TestMain(m *testing.M) {
	pgtest.Main(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ward is a migrated database to be looked at.
type ward struct {
	*testing.T
	url  string
	pool *pgxpool.Pool
	doctor.Options
}

func admit(t *testing.T) *ward {
	t.Helper()
	w := &ward{T: t, url: pgtest.Database(t)}
	w.pool = pgtest.Pool(t, w.url)
	conn, err := w.pool.Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	_, _, err = migrations.Up(t.Context(), conn.Conn(), inbox.DefaultSchema)
	must(t, err)
	reg := handlers.New()
	handlers.On(reg, "Paid", func(context.Context, pgx.Tx, handlers.Event[int]) error { return nil })
	reg.Ignore("Viewed")
	w.Options = doctor.Options{Pool: w.pool, Config: config.Default(), Registry: reg, Limit: time.Minute}
	return w
}

func (w *ward) exec(sql string, args ...any) {
	w.Helper()
	_, err := w.pool.Exec(w.Context(), sql, args...)
	must(w.T, err)
}

// put stores one event of each type, each in a lane of its own.
func (w *ward) put(types ...string) {
	w.Helper()
	var events []inbox.Event
	for _, t := range types {
		events = append(events, inbox.Event{ID: t, AggregateID: "a-" + t, Type: t, Payload: []byte("1")})
	}
	_, err := inbox.NewStore(w.pool, "").Put(w.Context(), events)
	must(w.T, err)
}

// says checks the answer to one check: its status, and what is in its detail and
// in its remedy ("": there is none).
func (w *ward) says(check string, status doctor.Status, detail, remedy string) {
	w.Helper()
	judge(w.T, doctor.Ask(w.Context(), w.Options, check, time.Hour), status, detail, remedy)
}

func judge(t *testing.T, r doctor.Result, status doctor.Status, detail, remedy string) {
	t.Helper()
	got := ""
	if r.Remedy != nil {
		got = *r.Remedy
	}
	if r.Status != status || !strings.Contains(r.Detail, detail) || !strings.Contains(got, remedy) || (remedy == "") != (got == "") {
		t.Errorf("%s: %s: %s\nremedy: %s\nwant %s with %q and %q", r.Check, r.Status, r.Detail, got, status, detail, remedy)
	}
}

func TestNothingIsWrong(t *testing.T) {
	t.Parallel()
	w := admit(t)
	r := doctor.Examine(t.Context(), w.Options)
	var names []string
	for _, result := range r.Results {
		names = append(names, result.Check)
		// The servers of tests do without fsync.
		if result.Status != doctor.OK && result.Check != "settings" {
			t.Errorf("%+v", result)
		}
	}
	const want = "connection, server, settings, time-outs, pooler, clock, schema, privileges, connections, listen, " +
		"processes, lanes, breakers, event types, vacuum, snapshots, lane locks, kafka"
	if got := strings.Join(names, ", "); got != want || r.Unreachable != nil || r.Failed() != 0 {
		t.Errorf("%s, %v, %d failed", got, r.Unreachable, r.Failed())
	}
}

func TestNoDatabase(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.Pool = pgtest.Pool(t, "postgres://somebody@127.0.0.1:1/shop?sslmode=disable")
	r := doctor.Examine(t.Context(), w.Options)
	if len(r.Results) != 2 || r.Unreachable == nil || r.Failed() != 1 {
		t.Fatalf("%+v", r)
	}
	judge(t, r.Results[0], doctor.Failed, "no PostgreSQL answers at 127.0.0.1:1", "inboxd config print")
	judge(t, r.Results[1], doctor.OK, "no topics are configured", "")
}

func TestSchemaVersion(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.exec(`update inboxd.schema_version set version = 1`)
	w.says("schema", doctor.Failed, "at version 1, older than", "inboxd migrate up")
	if r := doctor.Examine(t.Context(), w.Options); r.Results[len(r.Results)-2].Check != "schema" {
		t.Errorf("what depends on the schema was looked at: %+v", r.Results)
	}
	w.exec(`update inboxd.schema_version set version = 99`)
	w.says("schema", doctor.Failed, "at version 99, newer than", "inboxd version")
	w.exec(`drop schema inboxd cascade`)
	w.says("schema", doctor.Failed, "has no schema", "inboxd migrate up")
}

func TestTimeoutsOfTheRole(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.exec(`do $$ begin
	execute format('alter database %I set statement_timeout = ''9s''', current_database());
	execute format('alter database %I set idle_session_timeout = ''1h''', current_database());
end $$`)
	w.Pool = pgtest.Pool(t, w.url)
	w.says("time-outs", doctor.Warning, "statement_timeout is 9s, less than 10s", "set statement_timeout = 0;")
}

func TestClocks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, tc := range []struct {
		off, took time.Duration
		status    doctor.Status
		detail    string
		remedy    string
	}{
		{0, time.Millisecond, doctor.OK, "agree within 1ms", ""},
		{900 * time.Millisecond, 0, doctor.OK, "agree within 900ms", ""},
		{-90 * time.Second, time.Millisecond, doctor.Warning, "is 1m30s behind this machine's", "timedatectl"},
		{90 * time.Second, time.Millisecond, doctor.Warning, "is 1m30s ahead of this machine's", "timedatectl"},
		{3 * time.Second, 10 * time.Second, doctor.OK, "agree within", ""}, // nobody knows
	} {
		judge(t, doctor.CompareClocks(now, now.Add(tc.took/2+tc.off), now.Add(tc.took)), tc.status, tc.detail, tc.remedy)
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	prefix := pgtest.RolePrefix(t)
	w := admit(t)
	w.exec(`insert into inboxd.processes (name) select 'p' from generate_series(1, 3)`)
	w.says("connections", doctor.OK, "3 processes, 22 connections each", "")
	w.Config.Database.MaxConnections = 1000
	w.says("connections", doctor.Warning, "3 processes may open 1000 connections each, and the server takes", "alter system set max_connections = 6000;")
	w.exec(`do $$ begin execute format('alter database %I connection limit 200', current_database()); end $$`)
	w.Config.Database.MaxConnections = 100
	w.says("connections", doctor.Warning, "and the database takes 200", " connection limit 600;\n-- or lower database.max_connections")
	w.exec(`create role ` + prefix + `r login connection limit 50; grant usage on schema inboxd to ` + prefix + `r; grant select on inboxd.processes to ` + prefix + `r`)
	w.Pool = pgtest.Pool(t, pgtest.As(t, w.url, prefix+"r"))
	w.says("connections", doctor.Warning, "and the role takes 50", `alter role "`+prefix+`r" connection limit 600;`)
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.says("processes", doctor.OK, "no lane waits", "")
	w.put("Paid")
	w.says("processes", doctor.Warning, "there are lanes that could run", "inboxd serve")
	w.exec(`insert into inboxd.processes (name, seen_at) values ('p-1', now() - interval '4 min')`)
	w.says("processes", doctor.Warning, "1 process was not heard of, the longest (p-1) for 4m; there is none", "inboxd serve")
	w.exec(`insert into inboxd.processes (name, seen_at) values ('p-2', now() + interval '1 h')`)
	w.says("processes", doctor.Warning, "another one takes over", "inboxd serve")
	w.exec(`update inboxd.lanes set cursor = 1; delete from inboxd.processes`)
	w.says("processes", doctor.OK, "no lane waits", "") // done, and not settled
	w.exec(`insert into inboxd.processes (name, seen_at) values ('p-2', now() + interval '1 h')`)
	w.says("processes", doctor.OK, "1 process runs lanes", "")
}

func TestLanesAndBreakers(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.put("Paid", "Viewed")
	w.says("lanes", doctor.OK, "none is stuck, 0 are paused", "")
	w.exec(`update inboxd.lanes set state = 'stuck', since = now() - interval '3 h' where aggregate_id = 'a-Paid'`)
	w.says("lanes", doctor.Warning, "1 lane is stuck, the oldest for 3h", "inboxd errors list")
	w.says("breakers", doctor.OK, "none is open", "")
	w.exec(`insert into inboxd.breakers (event_type, opened_at, reason, fingerprint, next_probe_at, probes)
values ('it''s', now() - interval '5 min', E'503\nlater', 'f', now(), 4)`)
	w.says("breakers", doctor.Warning, "1 breaker is open: it's for 5m, 4 probes: 503", `--type 'it'\''s'`)
}

func TestEventTypes(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.put("Paid", "Viewed")
	w.says("event types", doctor.OK, "of 2 types among heads and newest events 1 has a handler, 1 is ignored", "")
	w.put("Strange")
	w.says("event types", doctor.Failed, "1 type without a handler, whose lanes become stuck: Strange", "inboxd lanes list --type Strange")

	// Processed within the hour, it is among the newest; before, it is of no matter.
	w.exec(`update inboxd.lanes l set cursor = 1; update inboxd.aggregates set pending = false`)
	w.says("event types", doctor.Failed, "Strange", "inboxd lanes list --type Strange")
	w.exec(`update inboxd.inbox set received_at = now() - interval '61 min'`)
	w.says("event types", doctor.OK, "of 0 types", "")

	// The head of a lane that is held, in an older segment.
	w.exec(`update inboxd.lanes set cursor = 0, state = 'stuck' where aggregate_id = 'a-Strange'; select inboxd.open_segment()`)
	w.says("event types", doctor.Failed, "Strange", "inboxd lanes list --type Strange")
	w.Registry = handlers.New()
	w.says("event types", doctor.Warning, "this program has no handler at all", "inboxd lanes list")
}

func TestVacuum(t *testing.T) {
	t.Parallel()
	w := admit(t)
	w.says("vacuum", doctor.OK, "tables", "")
	w.exec(`alter table inboxd.inbox_1 set (autovacuum_enabled = off)`)
	w.says("vacuum", doctor.Warning, "inbox_1 has autovacuum off", `alter table "inboxd"."inbox_1" reset (autovacuum_enabled);`)
	for _, tc := range []struct {
		name              string
		live, dead, bytes int64
		what, remedy      string
	}{
		{"lanes", 1000, 50_000, 1 << 20, "", ""},
		{"lanes", 200_000, 90_000, 1 << 20, "", ""},
		{"lanes", 100_000, 90_000, 1 << 20, "has 90000 dead rows beside 100000 live ones (never vacuumed)", `vacuum (analyze) "inboxd"."lanes";`},
		{"lanes", 1000, 0, 100 << 20, "has 100 MB for 1000 rows", `vacuum (full, analyze) "inboxd"."lanes"; -- it locks the table: stop serve before`},
		{"inbox_1", 1000, 0, 100 << 20, "", ""},
	} {
		if what, remedy := doctor.Judge(tc.name, tc.live, tc.dead, tc.bytes, false); what != tc.what || remedy != tc.remedy {
			t.Errorf("%+v: %q, %q", tc, what, remedy)
		}
	}
}

// TestACheckThatCannotLook: another session keeps it from looking, or the role.
func TestACheckThatCannotLook(t *testing.T) {
	t.Parallel()
	prefix := pgtest.RolePrefix(t)
	w := admit(t)
	tx, err := w.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `lock table inboxd.lanes in access exclusive mode`)
	must(t, err)
	w.Limit = 50 * time.Millisecond
	w.says("lanes", doctor.Warning, "it took longer than 50ms", "inboxd doctor")
	must(t, tx.Rollback(t.Context()))

	w.Limit = time.Minute
	w.exec(`create role ` + prefix + `poor login; grant usage on schema inboxd to ` + prefix + `poor`)
	w.Pool = pgtest.Pool(t, pgtest.As(t, w.url, prefix+"poor"))
	w.says("lanes", doctor.Warning, "does not let this role look: permission denied for table lanes", `grant select on "inboxd"."lanes" to "`+prefix+`poor";`)
}
