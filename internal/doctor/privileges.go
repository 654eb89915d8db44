package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/inboxd/inboxd/migrations"
)

// missing is the SQL that gives the present role what it lacks for a use, and
// what that is in words. Empty: it lacks nothing.
func (e *examiner) missing(ctx context.Context, use migrations.Use) (sql, words string, err error) {
	lacks, err := migrations.Lacks(ctx, e.Pool, e.Config.Database.Schema, use)
	if err != nil || len(lacks) == 0 {
		return "", "", err
	}
	role, err := e.role(ctx)
	if err != nil {
		return "", "", err
	}
	var lines, parts []string
	for _, g := range lacks {
		lines = append(lines, migrations.GrantSQL(e.Config.Database.Schema, g, role))
		on := "the schema"
		if g.Table != "" {
			on = g.Table
		}
		parts = append(parts, strings.Join(g.Privileges, ", ")+" on "+on)
	}
	return strings.Join(lines, "\n"), strings.Join(parts, "; "), nil
}

// marks are privileges that only roles for a use have: one that has it is meant
// for that use, and what it lacks besides was forgotten.
var marks = map[migrations.Use]migrations.Grant{
	migrations.Serve:   {Table: "processes", Privileges: []string{"insert"}},
	migrations.Operate: {Table: "quarantine", Privileges: []string{"delete"}},
}

func (e *examiner) privileges(ctx context.Context) (finding, error) {
	role, err := e.role(ctx)
	if err != nil {
		return finding{}, err
	}
	if e.Use != "" {
		sql, words, err := e.missing(ctx, e.Use)
		if err == nil && sql != "" {
			return fail(sql, "%s may not %s; it lacks %s", role, e.Use, words), nil
		}
		return fine("%s may %s", role, e.Use), err
	}
	var may []string
	for _, use := range migrations.Uses() {
		sql, words, err := e.missing(ctx, use)
		if err != nil {
			return finding{}, err
		}
		if sql == "" {
			may = append(may, string(use))
			continue
		}
		meant, err := e.meantFor(ctx, use)
		if err != nil {
			return finding{}, err
		}
		if meant || (use == migrations.Read && len(may) == 0) {
			return fail(sql, "%s looks like a role to %s, but lacks %s", role, use, words), nil
		}
	}
	return e.describeRole(ctx, role, may)
}

// meantFor reports whether the present role has the mark of a use.
func (e *examiner) meantFor(ctx context.Context, use migrations.Use) (bool, error) {
	mark, ok := marks[use]
	if !ok {
		return false, nil
	}
	var has bool
	err := e.Pool.QueryRow(ctx, `select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = $1 and c.relname = $2 and has_table_privilege(c.oid, $3))`,
		e.Config.Database.Schema, mark.Table, mark.Privileges[0]).Scan(&has)
	return has, err
}

// describeRole says what a role may do, and when it may do too much.
func (e *examiner) describeRole(ctx context.Context, role string, may []string) (finding, error) {
	var super, owner bool
	err := e.Pool.QueryRow(ctx, `select rolsuper, pg_has_role(n.nspowner, 'usage')
from pg_roles r, pg_namespace n where r.rolname = current_user and n.nspname = $1`, e.Config.Database.Schema).Scan(&super, &owner)
	text := fmt.Sprintf("%s may %s", role, strings.Join(may, ", "))
	switch {
	case err != nil:
		return finding{}, err
	case super:
		text += "; a superuser: see inboxd migrate roles"
	case owner:
		text += "; the owner of the schema: see inboxd migrate roles"
	}
	return fine("%s", text), nil
}
