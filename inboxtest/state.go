package inboxtest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// columnsSQL lists the columns of the business tables. loose columns are filled
// by the database by time, by chance or by count, or refer to such a column: they
// differ between runs that are alike.
const columnsSQL = `
with columns as (
	select c.oid as tab, n.nspname, c.relname, a.attnum, a.attname, a.atttypid,
		a.attidentity <> '' or coalesce(pg_get_expr(d.adbin, d.adrelid), '')
			~* '(nextval|now|random|uuid[a-z0-9_]*|[a-z_]*timestamp|timeofday|xact_id|txid_current)\s*\(|current_(date|time)|localtime' as loose
	from pg_class c
	join pg_namespace n on n.oid = c.relnamespace
	join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
	left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum and a.attgenerated = ''
	where c.relkind in ('r', 'p') and not c.relispartition
		and n.nspname <> $1 and n.nspname <> 'information_schema' and n.nspname not like 'pg\_%'
		and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.deptype = 'e')
)
select k.nspname, k.relname, k.attname,
	k.loose or exists (
		select from pg_constraint f
		cross join unnest(f.conkey, f.confkey) u(mine, theirs)
		join columns r on r.tab = f.confrelid and r.attnum = u.theirs and r.loose
		where f.contype = 'f' and f.conrelid = k.tab and u.mine = k.attnum),
	k.atttypid in ('timestamptz'::regtype, 'timestamp'::regtype)
from columns k
order by k.nspname, k.relname, k.attnum`

type column struct {
	Schema, Table, Name string
	Loose, Time         bool
}

// table is a business table and how its rows are read.
type table struct {
	name    string // as in statements, without the schema public
	columns []string
	sql     string
}

// tables lists the business tables: all but inboxd's, the system's and those of
// extensions.
func (k *Kit) tables(ctx context.Context) ([]table, error) {
	found, err := k.side.Query(ctx, columnsSQL, k.options.Schema)
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	columns, err := pgx.CollectRows(found, pgx.RowToStructByPos[column])
	if err != nil {
		return nil, fmt.Errorf("list the tables: %w", err)
	}
	var tables []table
	for len(columns) > 0 {
		n := 1
		for n < len(columns) && columns[n].Schema == columns[0].Schema && columns[n].Table == columns[0].Table {
			n++
		}
		tables = append(tables, tableOf(columns[:n]))
		columns = columns[n:]
	}
	return tables, nil
}

func tableOf(columns []column) table {
	t := table{name: columns[0].Table}
	if columns[0].Schema != "public" {
		t.name = columns[0].Schema + "." + t.name
	}
	var values []string
	for _, c := range columns {
		if c.Loose {
			continue
		}
		name := pgx.Identifier{c.Name}.Sanitize()
		value := name + "::text"
		if c.Time {
			value = "case when " + name + "::timestamptz between $1 and clock_timestamp() then 'during the run' else " + value + " end"
		}
		t.columns, values = append(t.columns, c.Name), append(values, value)
	}
	t.sql = "select array[" + strings.Join(values, ", ") + "]::text[], $1::timestamptz from " +
		pgx.Identifier{columns[0].Schema, columns[0].Table}.Sanitize()
	return t
}

// state is what a database holds, a line a row, sorted.
type state []string

// dump reads the rows of the business tables, but those that are named in except.
func (k *Kit) dump(ctx context.Context, except []string) (state, error) {
	tables, err := k.tables(ctx)
	if err != nil {
		return nil, err
	}
	var s state
	for _, t := range tables {
		if slices.Contains(except, t.name) {
			continue
		}
		found, err := k.side.Query(ctx, t.sql, k.began)
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", t.name, err)
		}
		lines, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (string, error) {
			var values []*string
			err := row.Scan(&values, nil)
			return t.name + ": " + fields(t.columns, values), err
		})
		if err != nil {
			return nil, fmt.Errorf("read table %s: %w", t.name, err)
		}
		s = append(s, lines...)
	}
	slices.Sort(s)
	return s, nil
}

// fields writes the values of a row with their names.
func fields(names []string, values []*string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		value := "null"
		if values[i] != nil {
			value = *values[i]
		}
		parts[i] = name + "=" + value
	}
	return strings.Join(parts, " ")
}

// State is what the business tables hold, a line a row, in an order of its own:
// two databases with the same State hold the same. Columns are left out that the
// database fills by time, by chance or by count (identity, and defaults such as
// now(), gen_random_uuid() or nextval()), with those that refer to them by a
// foreign key; and a time between the kit's making and now reads "during the run".
func (k *Kit) State() string {
	k.t.Helper()
	ctx, cancel := k.context()
	defer cancel()
	s, err := k.dump(ctx, nil)
	if err != nil {
		k.t.Fatalf("%v", err)
	}
	return strings.Join(s, "\n")
}

// diff says in lines what is in only one of two states: - for want, + for got.
// It is empty for equal states.
func diff(want, got state) string {
	var b strings.Builder
	i, j, n := 0, 0, 0
	for i < len(want) || j < len(got) {
		sign, line := "- ", ""
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			i, j = i+1, j+1
			continue
		case j >= len(got) || i < len(want) && want[i] < got[j]:
			line = want[i]
			i++
		default:
			sign, line = "+ ", got[j]
			j++
		}
		if n++; n <= maxDiff {
			b.WriteString("  " + sign + short(line) + "\n")
		}
	}
	if n > maxDiff {
		fmt.Fprintf(&b, "  and %d more\n", n-maxDiff)
	}
	return b.String()
}

// maxDiff is how many lines of a difference are printed.
const maxDiff = 20
