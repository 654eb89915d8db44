package cmd

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/migrations"
)

// explainLimit bounds the look at what a role lacks, after a command failed.
const explainLimit = 5 * time.Second

// denied is what PostgreSQL says of a table or schema that a role may not use.
var denied = regexp.MustCompile(`^permission denied for (?:table|view|schema) (.+)$`)

// explainDenied completes a failure for want of a privilege on something of the
// schema: it says which one. Of anything else, or when the database does not
// tell, it says nothing.
func (a *app) explainDenied(ctx context.Context, e *exitError) {
	var refusal *pgconn.PgError
	if !errors.As(e.err, &refusal) || refusal.Code != "42501" {
		return
	}
	match := denied.FindStringSubmatch(refusal.Message)
	if match == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainLimit)
	defer cancel()
	db, err := a.poolDatabase(ctx)
	if err != nil {
		return
	}
	defer db.close()
	role, lacks, err := db.lacks(ctx)
	if err != nil {
		return
	}
	for _, g := range lacks {
		if g.Table == match[1] || g.Table == "" && db.schema == match[1] {
			e.err = fmt.Errorf("%w: the role %s lacks %s", e.err, role, grantWords(g))
			return
		}
	}
}

// lacks is the present role, and what it lacks for any use.
func (d *database) lacks(ctx context.Context) (role string, lacks []migrations.Grant, err error) {
	if err := d.pool.QueryRow(ctx, `select current_user`).Scan(&role); err != nil {
		return "", nil, err
	}
	merged := map[string]int{} // by table, the index in lacks
	for _, use := range migrations.Uses() {
		of, err := migrations.Lacks(ctx, d.pool, d.schema, use)
		if err != nil {
			return "", nil, err
		}
		for _, g := range of {
			i, ok := merged[g.Table]
			if !ok {
				merged[g.Table] = len(lacks)
				lacks = append(lacks, g)
				continue
			}
			for _, p := range g.Privileges {
				if !slices.Contains(lacks[i].Privileges, p) {
					lacks[i].Privileges = append(lacks[i].Privileges, p)
				}
			}
		}
	}
	return role, lacks, nil
}

func grantWords(g migrations.Grant) string {
	if g.Table == "" {
		return strings.Join(g.Privileges, ", ") + " on the schema"
	}
	return strings.Join(g.Privileges, ", ") + " on " + g.Table
}

// mayServe says what the present role lacks to serve, so that serve does not try
// for ever what it may not do. That the database cannot be asked is no failure:
// it may be away, and serve waits for it.
func (d *database) mayServe(ctx context.Context) error {
	lacks, err := migrations.Lacks(ctx, d.pool, d.schema, migrations.Serve)
	if err != nil || len(lacks) == 0 {
		return nil //nolint:nilerr // see above
	}
	var role string
	if err := d.pool.QueryRow(ctx, `select current_user`).Scan(&role); err != nil {
		return nil //nolint:nilerr // see above
	}
	words := make([]string, len(lacks))
	for i, g := range lacks {
		words[i] = grantWords(g)
	}
	return failed("the role %s may not serve; it lacks %s", role, strings.Join(words, "; ")).
		withHint("inboxd doctor --for serve prints the SQL that grants it")
}
