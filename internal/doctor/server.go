package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inboxd/inboxd/migrations"
)

// oldest is the oldest version of PostgreSQL that inboxd works with.
const oldest = 140000

func (e *examiner) server(ctx context.Context) (finding, error) {
	var version, encoding string
	var number int
	var standby bool
	err := e.Pool.QueryRow(ctx, `select current_setting('server_version'), current_setting('server_version_num')::integer,
	current_setting('server_encoding'), pg_is_in_recovery()`).Scan(&version, &number, &encoding, &standby)
	version, _, _ = strings.Cut(version, " ")
	switch {
	case err != nil:
		return finding{}, err
	case number < oldest:
		return fail("pg_upgrade --help", "PostgreSQL %s is too old: inboxd needs 14 or newer", version), nil
	case encoding != "UTF8":
		return fail("create database inboxd_utf8 encoding 'UTF8' template template0;",
			"the database has the encoding %s, and inboxd needs UTF8", encoding), nil
	case standby:
		return fail("inboxd config print", "PostgreSQL %s is a standby, where nothing can be written: database.url has to lead to the primary (target_session_attrs=read-write)", version), nil
	}
	return fine("PostgreSQL %s, encoding %s", version, encoding), nil
}

// settings looks at what makes a commit durable.
func (e *examiner) settings(ctx context.Context) (finding, error) {
	var fsync, fullPages, sync string
	// What a session would have without inboxd, which puts synchronous_commit right.
	err := e.Pool.QueryRow(ctx, `select current_setting('fsync'), current_setting('full_page_writes'),
	(select reset_val from pg_settings where name = 'synchronous_commit')`).Scan(&fsync, &fullPages, &sync)
	if err != nil {
		return finding{}, err
	}
	var wrong, remedy []string
	for _, s := range []struct{ name, value, what string }{
		{"fsync", fsync, "a crash of the machine can destroy the database"},
		{"full_page_writes", fullPages, "a crash of the machine can tear pages"},
	} {
		if s.value == "off" {
			wrong = append(wrong, s.name+" is off: "+s.what)
			remedy = append(remedy, fmt.Sprintf("alter system set %s = on;", s.name))
		}
	}
	if len(wrong) > 0 {
		return warn(strings.Join(append(remedy, "select pg_reload_conf();"), "\n"), "%s", strings.Join(wrong, "; ")), nil
	}
	if sync == "off" {
		return fine("fsync on; synchronous_commit is off by default, and on in the sessions of inboxd"), nil
	}
	return fine("fsync on, synchronous_commit %s", sync), nil
}

// serverTimeout is a time-out that the role or the server comes with.
type serverTimeout struct {
	Name, Source string
	Milliseconds int64
}

// timeouts looks for those that would cut off what inboxd does. The time-outs of
// statements, locks and idle transactions are set anew in each turn of a lane.
func (e *examiner) timeouts(ctx context.Context) (finding, error) {
	role, err := e.role(ctx)
	if err != nil {
		return finding{}, err
	}
	found, err := rows[serverTimeout](ctx, e, `select name, source, reset_val::bigint from pg_settings
where name in ('statement_timeout', 'transaction_timeout', 'idle_session_timeout') and reset_val::bigint > 0
order by name`)
	if err != nil {
		return finding{}, err
	}
	limits := map[string]struct {
		least time.Duration
		why   string
	}{
		"statement_timeout":    {10 * time.Second, "it can cut off the storing of a batch"},
		"transaction_timeout":  {e.Config.Lanes.HandlerTimeout + e.Config.Lanes.Lease, "it cuts off handlers before lanes.handler_timeout does, and what is cut off runs again without end"},
		"idle_session_timeout": {10 * time.Minute, "it ends the sessions of the pool and of the listener again and again"},
	}
	var wrong, remedy []string
	for _, t := range found {
		d, limit := time.Duration(t.Milliseconds)*time.Millisecond, limits[t.Name]
		if d < limit.least {
			wrong = append(wrong, fmt.Sprintf("%s is %s, less than %s: %s", t.Name, d, limit.least, limit.why))
			remedy = append(remedy, fmt.Sprintf("alter role %s set %s = 0;", quoted(role), t.Name))
		}
	}
	if len(wrong) > 0 {
		return warn(strings.Join(remedy, "\n"), "%s", strings.Join(wrong, "; ")), nil
	}
	return fine("no time-out of the role or the server cuts off what inboxd does"), nil
}

// pooler compares the number of the session as the client was told it with the
// one that the server says.
func (e *examiner) pooler(ctx context.Context) (finding, error) {
	conn, err := e.Pool.Acquire(ctx)
	if err != nil {
		return finding{}, err
	}
	defer conn.Release()
	var pid uint32
	if err := conn.QueryRow(ctx, `select pg_backend_pid()`).Scan(&pid); err != nil {
		return finding{}, err
	}
	if pid == conn.Conn().PgConn().PID() {
		return fine("none: sessions are the server's own"), nil
	}
	const found = "something like PgBouncer seems to stand before the server"
	if e.Config.Database.DirectURL != "" {
		return fine("%s; LISTEN, migrations and dry runs go past it, to database.direct_url", found), nil
	}
	return warn("inboxd config print", "%s: LISTEN, migrations and dry runs need sessions of their own; set database.direct_url to lead to the same database past it", found), nil
}

// skewed is by how much clocks may differ.
const skewed = time.Second

// clock compares this machine's clock with the server's. Nothing depends on it
// but what people read: all times of lanes are the server's.
func (e *examiner) clock(ctx context.Context) (finding, error) {
	conn, err := e.Pool.Acquire(ctx)
	if err != nil {
		return finding{}, err
	}
	defer conn.Release()
	var there time.Time
	const ask = `select clock_timestamp()`
	if err := conn.QueryRow(ctx, ask).Scan(&there); err != nil { // prepared, so that the next one is quick
		return finding{}, err
	}
	before := time.Now()
	if err := conn.QueryRow(ctx, ask).Scan(&there); err != nil {
		return finding{}, err
	}
	return compareClocks(before, there, time.Now()), nil
}

// compareClocks judges the server's time, which was read between two of this
// machine.
func compareClocks(before, there, after time.Time) finding {
	off, doubt := there.Sub(before.Add(after.Sub(before)/2)), after.Sub(before)/2
	if off.Abs()-doubt > skewed {
		word := "ahead of"
		if off < 0 {
			word = "behind"
		}
		return warn("timedatectl status", "the server's clock is %s %s this machine's: times in logs will not agree (lanes go by the server's alone)",
			off.Abs().Round(100*time.Millisecond), word)
	}
	return fine("the server's and this machine's agree within %s", max(off.Abs(), doubt).Round(time.Millisecond))
}

func (e *examiner) schemaVersion(ctx context.Context) (finding, error) {
	name := e.Config.Database.Schema
	version, err := migrations.Current(ctx, e.Pool, name)
	switch {
	case err != nil:
		return finding{}, err
	case version == 0:
		return fail("inboxd migrate up", "the database has no schema %q of inboxd; what depends on it was not looked at", name), nil
	case version < migrations.Version:
		return fail("inboxd migrate up", "the schema %q is at version %d, older than version %d that this program works with", name, version, migrations.Version), nil
	case version > migrations.Version:
		return fail("inboxd version", "the schema %q is at version %d, newer than version %d that this program works with: use a newer inboxd", name, version, migrations.Version), nil
	}
	return fine("%s at version %d", name, version), nil
}
