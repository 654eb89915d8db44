package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// table is what is known of one table that changes all the time.
type table struct {
	Name       string
	Live, Dead int64
	Bytes      int64
	Off        bool // autovacuum is off for it
	Vacuumed   *time.Duration
}

// tablesSQL lists the tables, each partition for itself, those with most dead
// rows first.
const tablesSQL = `
select c.relname::text, coalesce(s.n_live_tup, 0), coalesce(s.n_dead_tup, 0), pg_relation_size(c.oid),
	exists (select from pg_options_to_table(c.reloptions) o where o.option_name = 'autovacuum_enabled' and not o.option_value::boolean),
	clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
left join pg_stat_all_tables s on s.relid = c.oid
where n.nspname = $1 and c.relkind = 'r'
order by coalesce(s.n_dead_tup, 0) desc, c.relname`

// A table with more dead rows than these, and than a part of the live ones, is
// not vacuumed as it should be. One with more bytes a row was left so for long.
const (
	deadRows    = 50_000
	deadShare   = 0.5
	fatTable    = 64 << 20
	bytesPerRow = 2048
)

func (e *examiner) vacuum(ctx context.Context) (finding, error) {
	var on, counts bool
	err := e.Pool.QueryRow(ctx, `select current_setting('autovacuum')::boolean, current_setting('track_counts')::boolean`).Scan(&on, &counts)
	switch {
	case err != nil:
		return finding{}, err
	case !on || !counts:
		return fail("alter system set autovacuum = on;\nalter system set track_counts = on;\nselect pg_reload_conf();",
			"autovacuum is off on the server: the tables grow without end"), nil
	}
	tables, err := rows[table](ctx, e, tablesSQL, e.Config.Database.Schema)
	if err != nil {
		return finding{}, err
	}
	var lines, remedies []string
	var dead int64
	for _, t := range tables {
		dead += t.Dead
		if what, remedy := t.judge(e.schema); what != "" {
			lines, remedies = append(lines, t.Name+" "+what), append(remedies, remedy)
		}
	}
	if n := len(lines); n > 0 {
		return warn(strings.Join(remedies[:min(n, 3)], "\n"), "%s", strings.Join(lines[:min(n, 3)], "; ")), nil
	}
	return fine("%s, %d dead rows in all", count(len(tables), "table"), dead), nil
}

// judge says what is wrong with the table and what puts it right.
func (t table) judge(schema string) (what, remedy string) {
	name := schema + "." + quoted(t.Name)
	last := "never vacuumed"
	if t.Vacuumed != nil {
		last = "last vacuumed " + age(*t.Vacuumed) + " ago"
	}
	small := t.Name == "aggregates" || t.Name == "lanes"
	switch {
	case t.Off:
		return "has autovacuum off", "alter table " + name + " reset (autovacuum_enabled);"
	case t.Dead > deadRows && float64(t.Dead) > deadShare*float64(t.Live):
		return fmt.Sprintf("has %d dead rows beside %d live ones (%s)", t.Dead, t.Live, last), "vacuum (analyze) " + name + ";"
	case small && t.Bytes > fatTable && t.Live > 0 && t.Bytes/t.Live > bytesPerRow:
		return fmt.Sprintf("has %d MB for %d rows", t.Bytes>>20, t.Live), "vacuum (full, analyze) " + name + "; -- it locks the table: stop serve before"
	}
	return "", ""
}
