package migrations

import (
	"context"
	_ "embed" // for the template
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/jackc/pgx/v5"
)

//go:embed roles.sql.tmpl
var rolesTemplate string

// Use is what somebody does with the schema; each has a database role of its
// own that may do no more.
type Use string

// The uses. The migrator, who owns the schema, is none of them.
const (
	// Serve is to store events and run lanes.
	Serve Use = "serve"
	// Operate is to change lanes, edit events, put back quarantined records, and
	// to look at everything.
	Operate Use = "operate"
	// Read is to look at everything.
	Read Use = "read"
)

// Uses lists them, the one that needs most first.
func Uses() []Use { return []Use{Serve, Operate, Read} }

// RoleNames are the names of the database roles.
type RoleNames struct {
	// Migrator owns the schema and all in it, and migrates.
	Migrator string
	// Runtime, Operator and Reader are for Serve, Operate and Read.
	Runtime, Operator, Reader string
}

// DefaultRoleNames are names that begin with that of the schema, since roles
// belong to a whole server.
func DefaultRoleNames(schema string) RoleNames {
	return RoleNames{
		Migrator: schema + "_migrator", Runtime: schema + "_runtime",
		Operator: schema + "_operator", Reader: schema + "_reader",
	}
}

// Grant is what a use needs on one table or view.
type Grant struct {
	Table      string
	Privileges []string // select, insert, update or delete
}

// tableUse says what serving and operating write; everybody reads every table.
// What neither updates nor deletes is append-only for both: the inbox, the
// ledger and the audit.
type tableUse struct{ table, serve, operate string }

var tableUses = []tableUse{
	{"aggregates", "insert update", "insert update"}, // operators store what they requeue
	{"audit", "insert", "insert"},
	{"breakers", "insert update delete", "insert update delete"},
	{"changes", "insert update delete", "insert update delete"},
	{"claims", "insert update delete", ""},
	{"edits", "", "insert update delete"},
	{"events", "", ""},
	{"failures", "insert update delete", "insert update delete"},
	{"inbox", "insert", "insert"},
	{"lanes", "insert update", "insert update"},
	{"processes", "insert update delete", ""},
	{"quarantine", "insert", "insert update delete"},
	{"runs", "insert", "insert"},
	{"schema_version", "", ""},
	{"segments", "", ""},
	{"sources", "insert update", "update"}, // operators move offsets
	{"staged", "insert delete", ""},
}

// Grants lists what a use needs, by table. Partitions are reached through their
// tables and need nothing.
func Grants(use Use) []Grant {
	all := make([]Grant, len(tableUses))
	for i, t := range tableUses {
		all[i] = Grant{Table: t.table, Privileges: append([]string{"select"}, t.writes(use)...)}
	}
	return all
}

func (t tableUse) writes(use Use) []string {
	return strings.Fields(map[Use]string{Serve: t.serve, Operate: t.operate}[use])
}

// writes lists what a use needs beyond reading.
func writes(use Use) []Grant {
	var all []Grant
	for _, t := range tableUses {
		if w := t.writes(use); len(w) > 0 {
			all = append(all, Grant{Table: t.table, Privileges: w})
		}
	}
	return all
}

// RolesScript answers the SQL that makes the roles and gives each exactly what
// its use needs: to be run by a person, after the migrations, again after each
// later one.
func RolesScript(schema string, names RoleNames) (string, error) {
	if err := names.validate(); err != nil {
		return "", err
	}
	t, err := template.New("roles").Funcs(template.FuncMap{
		"name": func(s string) string { return pgx.Identifier{s}.Sanitize() },
		"text": quoteLiteral,
		"join": func(privileges []string) string { return strings.Join(privileges, ", ") },
	}).Parse(rolesTemplate)
	if err != nil {
		return "", fmt.Errorf("read the template of roles: %w", err)
	}
	var b strings.Builder
	err = t.Execute(&b, map[string]any{
		"schema": schema, "migrator": names.Migrator,
		"roles": []map[string]any{
			{"name": names.Runtime, "does": "stores events and runs lanes (serve, ingest)", "writes": writes(Serve)},
			{"name": names.Operator, "does": "changes lanes, edits events, puts back quarantined records", "writes": writes(Operate)},
			{"name": names.Reader, "does": "lists, shows and verifies", "writes": writes(Read)},
		},
	})
	if err != nil {
		return "", fmt.Errorf("write the SQL of the roles: %w", err)
	}
	return b.String(), nil
}

func (n RoleNames) validate() error {
	names := []string{n.Migrator, n.Runtime, n.Operator, n.Reader}
	for i, name := range names {
		switch {
		case name == "":
			return fmt.Errorf("a role has no name")
		case len(name) > 63:
			return fmt.Errorf("the role %q has a name of %d bytes, and PostgreSQL takes 63", name, len(name))
		case strings.ContainsAny(name, "\x00\n\r"):
			return fmt.Errorf("the role %q has a line break or a NUL in its name", name)
		case slices.Contains(names[:i], name):
			return fmt.Errorf("two roles have the name %q, but each needs one of its own", name)
		}
	}
	return nil
}

// Lacks answers what the present role lacks for a use; none: it may do all of
// it. Tables that do not exist are left out.
func Lacks(ctx context.Context, db interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}, schema string, use Use) ([]Grant, error) {
	var tables, privileges []string
	for _, g := range Grants(use) {
		for _, p := range g.Privileges {
			tables, privileges = append(tables, g.Table), append(privileges, p)
		}
	}
	rows, err := db.Query(ctx, lacksSQL, schema, tables, privileges)
	if err != nil {
		return nil, fmt.Errorf("read the privileges of the present role: %w", err)
	}
	lacks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Grant])
	if err != nil {
		return nil, fmt.Errorf("read the privileges of the present role: %w", err)
	}
	return lacks, nil
}

// lacksSQL has the schema itself as a grant without a table. It reads the
// catalogs by name.
const lacksSQL = `
select '' as table_name, array['usage'] as privileges
from pg_namespace n
where n.nspname = $1 and not has_schema_privilege(n.oid, 'usage')
union all
select * from (
	select w.name, array_agg(w.privilege order by w.ord)
	from unnest($2::text[], $3::text[]) with ordinality w(name, privilege, ord)
	join pg_namespace n on n.nspname = $1
	join pg_class c on c.relnamespace = n.oid and c.relname = w.name
	where not has_table_privilege(c.oid, w.privilege)
	group by w.name
	order by w.name
) t`

// GrantSQL is the statement that gives a role what it lacks.
func GrantSQL(schema string, g Grant, role string) string {
	on := "schema " + pgx.Identifier{schema}.Sanitize()
	if g.Table != "" {
		on = pgx.Identifier{schema, g.Table}.Sanitize()
	}
	return fmt.Sprintf("grant %s on %s to %s;", strings.Join(g.Privileges, ", "), on, pgx.Identifier{role}.Sanitize())
}
