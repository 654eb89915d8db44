//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// judgeBalances: a balance is the sum of its effects.
func (w *world) judgeBalances(ctx context.Context) error {
	rows, err := w.pool.Query(ctx, `select b.aggregate_id, b.amount, coalesce(sum(e.amount), 0)::bigint
		from balances b left join effects e using (aggregate_id)
		group by b.aggregate_id, b.amount having b.amount <> coalesce(sum(e.amount), 0)`)
	if err != nil {
		return fmt.Errorf("read the balances: %w", err)
	}
	var name string
	var amount, sum int64
	_, err = pgx.ForEachRow(rows, []any{&name, &amount, &sum}, func() error {
		w.findings.addFor(name, "balance", "%s has %d, but its effects make %d", name, amount, sum)
		return nil
	})
	return err
}

// judgeLeftovers: nothing is locked, connected, registered or staged.
func (w *world) judgeLeftovers(ctx context.Context) error {
	for what, sql := range map[string]string{
		"session":          `select format('%s %s %s: %s', pid, application_name, state, left(query, 100)) from pg_stat_activity where application_name like 'torture/%' or application_name = 'operator'`,
		"lock":             `select format('%s %s %s by %s', locktype, mode, relation::regclass, l.pid) from pg_locks l join pg_stat_activity a using (pid) where a.application_name <> 'judge' and a.backend_type = 'client backend'`,
		"process of shop":  `select format('%s %s seen %s', process_id, name, seen_at) from shop.processes`,
		"process of team":  `select format('%s %s seen %s', process_id, name, seen_at) from team.processes`,
		"staged event":     `select event_id from team.staged union all select event_id from shop.staged`,
		"prepared":         `select gid from pg_prepared_xacts`,
		"waiting ungently": `select aggregate_id || ' ' || state from shop.lanes where state not in ('ready', 'stuck') union all select aggregate_id || ' ' || state from team.lanes where state not in ('ready', 'stuck')`,
	} {
		rows, err := w.pool.Query(ctx, sql)
		if err != nil {
			return fmt.Errorf("look for a left %s: %w", what, err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("look for a left %s: %w", what, err)
		}
		for _, line := range lines {
			w.findings.add("left behind", "%s: %s", what, line)
		}
	}
	return nil
}

// wanted is how a lane has to be stuck at a final event.
func wanted(m *made, family string) (message string, used int) {
	switch {
	case m.kind == doomed1 && family == "team":
		return errDoomed.Error(), 1
	case m.kind == doomed1:
		return "never_ever", attempts
	case m.kind == unknown:
		return "no handler is registered", 0
	case m.kind == severed:
		return "every attempt ended with", 1
	}
	return "every attempt ended with", attempts
}

// judgeLanes: those lanes are stuck that have to be, for the reason they have to.
func (w *world) judgeLanes(ctx context.Context, e *expectation) error {
	found := map[string]bool{}
	for _, f := range w.families() {
		rows, err := w.pool.Query(ctx, f.in(`select l.aggregate_id, i.event_id, l.attempts, coalesce(l.error_message, '')
			from {schema}.lanes l left join {schema}.inbox i on i.lane_id = l.lane_id and i.position = l.cursor + 1
			where l.state = 'stuck'`))
		if err != nil {
			return fmt.Errorf("read the lanes: %w", err)
		}
		var name, message string
		var id *string
		var used int
		_, err = pgx.ForEachRow(rows, []any{&name, &id, &used, &message}, func() error {
			found[name] = true
			w.judgeStuck(e, name, id, used, message)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the lanes: %w", err)
		}
	}
	for a, i := range e.stuckAt {
		if name := w.stream.aggregates[a].name; !found[name] {
			w.findings.addFor(name, "not stuck", "%s has to be stuck at %s (%s)", name, w.stream.id(i), typeOf[w.stream.events[i].kind])
		}
	}
	return nil
}

func (w *world) judgeStuck(e *expectation, name string, id *string, used int, message string) {
	head := "nothing"
	if id != nil {
		head = *id
	}
	i := w.stream.indexOf(head)
	if i < 0 || !w.stream.events[i].sent || e.done[i] {
		w.findings.addFor(name, "stuck", "%s is stuck at %s with %d attempts: %s", name, head, used, message)
		return
	}
	m := &w.stream.events[i]
	text, want := wanted(m, w.stream.aggregates[m.aggregate].family)
	// One that loses its connection in processes that die besides may have used
	// up its attempts that way.
	asWanted := used == want || m.kind == severed && used == attempts
	if e.stuckAt[m.aggregate] != i || !strings.Contains(message, text) || !asWanted {
		w.findings.addFor(name, "stuck otherwise", "%s is stuck at %s (%s) with %d attempts, not %d: %s", name, head, typeOf[m.kind], used, want, message)
	}
}

// judgeCrashes: an event that always ends its process does so no oftener than it
// has attempts, but for one: the first is seen only by the trace it leaves.
func (w *world) judgeCrashes() {
	files, _ := os.ReadDir(filepath.Join(w.dir, "crashes"))
	for _, file := range files {
		info, err := file.Info()
		i := w.stream.indexOf(file.Name())
		if err != nil || i < 0 {
			continue
		}
		if most := int64(attempts + 1); info.Size() > most {
			m := &w.stream.events[i]
			w.findings.addFor(w.stream.aggregates[m.aggregate].name, "crash loop",
				"event %s, number %d of %s, ended %d processes, more than %d", file.Name(), m.n, w.stream.aggregates[m.aggregate].name, info.Size(), most)
		}
	}
}

// judgeLimits: memory and connections are bounded.
func (w *world) judgeLimits() {
	for name, mib := range w.watcher.memory {
		if mib > w.opts.maxRSS {
			w.findings.add("memory", "%s had %d MiB", name, mib)
		}
	}
	for name, n := range w.watcher.connections {
		if n > maxConnections {
			w.findings.add("connections", "%s had %d, more than %d", name, n, maxConnections)
		}
	}
}

// judgeLogs: nothing panicked.
func (w *world) judgeLogs() {
	paths, _ := filepath.Glob(filepath.Join(w.dir, "*.log"))
	for _, path := range paths {
		log, err := os.ReadFile(path)
		if err != nil || filepath.Base(path) == "postgres.log" {
			continue
		}
		for line := range bytes.Lines(log) {
			if bytes.HasPrefix(line, []byte("panic:")) || bytes.HasPrefix(line, []byte("fatal error:")) || bytes.Contains(line, []byte("DATA RACE")) {
				w.findings.add("panic", "%s: %s", filepath.Base(path), bytes.TrimSpace(line))
			}
		}
	}
}

// runVerify asks inboxd itself.
func (w *world) runVerify(ctx context.Context) {
	began := time.Now()
	for _, f := range w.families() {
		out, err := w.command(ctx, w.opts.inboxd, f, "verify", "-o", "json").CombinedOutput()
		_ = os.WriteFile(filepath.Join(w.dir, "verify-"+f.name+".json"), out, 0o644) // only for people
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			w.findings.add("verify", "%s: exit code %d: %s", f.name, exit.ExitCode(), out[:min(len(out), 2000)])
		case err != nil:
			w.findings.add("verify", "%s: %v", f.name, err)
		}
	}
	w.numbers.verify = "agrees, took " + time.Since(began).Round(10*time.Millisecond).String()
	if w.findings.counts["verify"] > 0 {
		w.numbers.verify = "does not agree"
	}
}

// keepEvidence writes down the story of aggregates that something is wrong with.
func (w *world) keepEvidence(ctx context.Context) error {
	const most = 6
	for _, name := range w.findings.aggregates[:min(len(w.findings.aggregates), most)] {
		family, _, _ := strings.Cut(name, "-")
		if family != "shop" {
			family = "team"
		}
		var b bytes.Buffer
		for _, sql := range []string{
			`select * from %s.lanes where aggregate_id = $1`,
			`select * from %s.aggregates where aggregate_id = $1`,
			`select event_id, event_type, position, received_at, processed_at, attempts, source_partition, source_offset from %s.events where aggregate_id = $1 order by position`,
			`select r.* from %[1]s.runs r join %[1]s.lanes l using (lane_id) where l.aggregate_id = $1 order by last_position`,
			`select f.* from %[1]s.failures f join %[1]s.lanes l using (lane_id) where l.aggregate_id = $1 order by failure_id`,
			`select * from effects where aggregate_id = $1 order by seq`,
		} {
			if strings.Contains(sql, "%") {
				sql = fmt.Sprintf(sql, family)
			}
			if err := w.table(ctx, &b, sql, name); err != nil {
				return fmt.Errorf("keep the evidence of %s: %w", name, err)
			}
		}
		if err := os.WriteFile(filepath.Join(w.dir, "evidence-"+name+".tsv"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) table(ctx context.Context, b *bytes.Buffer, sql string, args ...any) error {
	rows, err := w.pool.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	fmt.Fprintf(b, "# %s\n", sql)
	for _, d := range rows.FieldDescriptions() {
		fmt.Fprintf(b, "%s\t", d.Name)
	}
	b.WriteByte('\n')
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return err
		}
		for _, v := range values {
			if t, ok := v.(time.Time); ok {
				v = t.UTC().Format("15:04:05.000000")
			}
			fmt.Fprintf(b, "%v\t", v)
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return rows.Err()
}
