package doctor

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/database"
)

// connections compares what the processes may open with what the server takes.
func (e *examiner) connections(ctx context.Context) (finding, error) {
	var room, role, base, processes int
	var user, name string
	err := e.Pool.QueryRow(ctx, e.in(`
select current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
		- coalesce(current_setting('reserved_connections', true), '0')::integer,
	r.rolconnlimit, d.datconnlimit, r.rolname::text, d.datname::text,
	(select count(*) from {schema}.processes where seen_at > clock_timestamp() - $1::interval)
from pg_roles r, pg_database d
where r.rolname = current_user and d.datname = current_database()`), e.Config.Lanes.Lease).
		Scan(&room, &role, &base, &user, &name, &processes)
	if err != nil {
		return finding{}, err
	}
	of, raise := "the server takes", "alter system set max_connections = %d; -- and restart the server"
	if role >= 0 && role < room {
		room, of, raise = role, "the role takes", "alter role "+escaped(user)+" connection limit %d;"
	}
	if base >= 0 && base < room {
		room, of, raise = base, "the database takes", "alter database "+escaped(name)+" connection limit %d;"
	}
	each := e.Config.Database.MaxConnections
	if need := max(processes, 1) * each; need > room {
		return warn(fmt.Sprintf(raise, 2*need)+"\n-- or lower database.max_connections",
			"%s may open %d connections each, and %s %d", count(max(processes, 1), "process"), each, of, room), nil
	}
	return fine("%s, %d connections each at most; %s %d", count(processes, "process"), each, of, room), nil
}

// escaped is a quoted name for a format.
func escaped(name string) string { return strings.ReplaceAll(quoted(name), "%", "%%") }

// listen sends a notification to itself, on a channel that nobody else hears.
func (e *examiner) listen(ctx context.Context) (finding, error) {
	conn, err := e.listener(ctx)
	if f, ok := database.Explain(err); ok && e.Config.Database.DirectURL != "" {
		return fail("inboxd config print", "database.direct_url leads nowhere: %s; %s", f.Sentence, f.Remedy), nil
	} else if err != nil {
		return finding{}, err
	}
	channel := "inboxd_doctor_" + strings.ToLower(rand.Text())
	defer func() {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.Limit)
		defer cancel()
		_, _ = conn.Exec(limited, "unlisten "+quoted(channel)) // a lost session hears nothing either
		_ = conn.Close(limited)
	}()
	if _, err := conn.Exec(ctx, "listen "+quoted(channel)); err != nil {
		return finding{}, err
	}
	began := time.Now()
	var used float64
	if err := e.Pool.QueryRow(ctx, `select pg_notification_queue_usage() from pg_notify($1, 'doctor')`, channel).Scan(&used); err != nil {
		return finding{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, e.Limit/2)
	defer cancel()
	if err := hear(waiting, conn, channel); err != nil {
		return e.deaf(), nil
	}
	if used > 0.5 {
		return warn("select pid, usename, application_name, state from pg_stat_activity where wait_event_type is distinct from 'Client' or state like 'idle in%' order by xact_start;",
			"the server's queue of notifications is %.0f%% full, because a session that listens is in a long transaction: the sweep finds new events meanwhile", used*100), nil
	}
	return fine("a notification arrived within %s; the queue is %.0f%% full", time.Since(began).Round(time.Millisecond), used*100), nil
}

// deaf is the finding that nothing is heard.
func (e *examiner) deaf() finding {
	const late = "a notification to oneself did not arrive: new events are found by the sweep, up to a second late; "
	if e.Config.Database.DirectURL != "" {
		return warn("inboxd config print", late+"database.direct_url has to lead to the same database as database.url, past any pooler in transaction mode")
	}
	return warn("inboxd config print", late+"set database.direct_url to lead to the same database past a pooler in transaction mode")
}

// listener connects as the listener of serve does.
func (e *examiner) listener(ctx context.Context) (*pgx.Conn, error) {
	if direct := e.Config.Database.DirectURL; direct != "" {
		return database.Connect(ctx, direct)
	}
	return pgx.ConnectConfig(ctx, e.Pool.Config().ConnConfig)
}

func hear(ctx context.Context, conn *pgx.Conn, channel string) error {
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if n.Channel == channel {
			return nil
		}
	}
}

// held is something that keeps a snapshot or a lock.
type held struct {
	Kind   string // session, prepared or slot
	Name   string // the number of the session, or the name of the transaction or slot
	Detail string
	For    time.Duration
	Xids   int64 // transactions that began since
}

// remedy is what ends it.
func (h held) remedy() string {
	switch h.Kind {
	case "prepared":
		return "rollback prepared " + literal(h.Name) + ";"
	case "slot":
		return "select pg_drop_replication_slot(" + literal(h.Name) + ");"
	}
	return "select pg_terminate_backend(" + h.Name + ");"
}

func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// What is held for longer, or since more transactions, keeps too many dead rows.
const (
	oldSnapshot     = 10 * time.Minute
	oldTransactions = 5_000_000
)

// snapshotsSQL lists what keeps dead rows in the tables of this database, the
// oldest first. Of sessions of other roles the times may be hidden; the number
// of transactions since never is.
const snapshotsSQL = `
select * from (
	select 'session' as kind, a.pid::text as name,
		coalesce(a.usename, a.backend_type, 'unknown') || coalesce(' (' || nullif(a.application_name, '') || ')', '')
			|| coalesce(', ' || a.state, '') as detail,
		coalesce(clock_timestamp() - a.xact_start, '0') as lasts, age(a.backend_xmin)::bigint as xids
	from pg_stat_activity a
	where a.backend_xmin is not null and a.pid <> pg_backend_pid()
		and (a.datname = current_database() or a.datname is null) -- a standby's
	union all
	select 'prepared', p.gid, p.owner::text, clock_timestamp() - p.prepared, age(p.transaction)::bigint
	from pg_prepared_xacts p where p.database = current_database()
	union all
	select 'slot', s.slot_name::text, case when s.active then 'active' else 'inactive' end, '0',
		age(s.xmin)::bigint
	from pg_replication_slots s where s.xmin is not null
) x
order by x.xids desc, x.lasts desc
limit 100`

const hiddenSQL = `
select count(*)::integer from pg_stat_activity
where datname = current_database() and usename is not null and query = '<insufficient privilege>'`

func (e *examiner) snapshots(ctx context.Context) (finding, error) {
	all, err := rows[held](ctx, e, snapshotsSQL)
	if err != nil {
		return finding{}, err
	}
	var lines, remedies []string
	for _, h := range all {
		if h.For < e.old && h.Xids < oldTransactions {
			continue
		}
		since := fmt.Sprintf("%d transactions ago", h.Xids)
		if h.For >= e.old {
			since = "for " + age(h.For)
		}
		lines = append(lines, fmt.Sprintf("%s %s, %s, %s", h.Kind, h.Name, h.Detail, since))
		remedies = append(remedies, h.remedy())
	}
	if n := len(lines); n > 0 {
		return warn(strings.Join(remedies[:min(n, 3)], "\n"), "%s, and no dead row since then can be removed: %s",
			count(n, "old snapshot")+" "+agree(n, "is", "are")+" held", strings.Join(lines[:min(n, 3)], "; ")), nil
	}
	return e.unlessHidden(ctx, fine("no snapshot is older than %s", age(e.old)))
}

// unlessHidden answers f, or that what other roles do is hidden from this one.
func (e *examiner) unlessHidden(ctx context.Context, f finding) (finding, error) {
	var hidden int
	if err := e.Pool.QueryRow(ctx, hiddenSQL).Scan(&hidden); err != nil || hidden == 0 {
		return f, err
	}
	role, err := e.role(ctx)
	return warn("grant pg_read_all_stats to "+quoted(role)+";",
		"%s, as far as %s may see: what %s of other roles do%s is hidden", f.detail, role, count(hidden, "session"), agree(hidden, "es", "")), err
}

// laneLocksSQL finds transactions that do nothing and keep locks on rows of
// lanes: on the table, each such transaction shows by these modes.
const laneLocksSQL = `
select distinct 'session', a.pid::text, a.usename::text || coalesce(' (' || nullif(a.application_name, '') || ')', ''),
	clock_timestamp() - a.state_change as lasts, 0::bigint
from pg_locks k
join pg_stat_activity a on a.pid = k.pid
where k.locktype = 'relation' and k.relation = to_regclass($1) and k.granted
	and k.database = (select oid from pg_database where datname = current_database())
	and k.mode in ('RowShareLock', 'RowExclusiveLock', 'ShareUpdateExclusiveLock', 'ShareLock',
		'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
	and a.state like 'idle in transaction%' and a.state_change < clock_timestamp() - $2::interval
order by lasts desc
limit 100`

func (e *examiner) laneLocks(ctx context.Context) (finding, error) {
	// A handler may leave its transaction idle while it works elsewhere.
	limit := e.Config.Lanes.HandlerTimeout
	all, err := rows[held](ctx, e, laneLocksSQL, e.schema+".lanes", limit)
	if err != nil {
		return finding{}, err
	}
	var lines, remedies []string
	for _, h := range all {
		lines = append(lines, fmt.Sprintf("session %s of %s, idle for %s", h.Name, h.Detail, age(h.For)))
		remedies = append(remedies, h.remedy())
	}
	if n := len(lines); n > 0 {
		return warn(strings.Join(remedies[:min(n, 3)], "\n"), "lanes are locked by %s in a transaction that does nothing: %s",
			count(n, "session"), strings.Join(lines[:min(n, 3)], "; ")), nil
	}
	return e.unlessHidden(ctx, fine("no idle transaction holds a lane for longer than lanes.handler_timeout (%s)", limit))
}

func agree(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
