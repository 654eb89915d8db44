package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// RolePrefix returns what the names of the test's database roles have to begin with, in lower case: roles
// belong to the whole server. Those that there are when the test ends are dropped. Call it before
// Database, or what the roles own is still there then.
func RolePrefix(t T) string {
	t.Helper()
	start(t)
	prefix := "test_" + strings.ToLower(rand.Text()[:12]) + "_"
	t.Cleanup(func() {
		if err := shared.dropRoles(prefix); err != nil {
			t.Errorf("drop the roles of the test: %v", err)
		}
	})
	return prefix
}

func (h *harness) dropRoles(prefix string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	rows, err := h.admin.Query(ctx, "select rolname from pg_roles where starts_with(rolname, $1)", prefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := h.admin.Exec(ctx, "drop role "+pgx.Identifier{name}.Sanitize()); err != nil {
			return err
		}
	}
	return nil
}

// As returns the URL that leads to a database as another role, which gets a password for it.
func As(t T, address, role string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatalf("log in to set a password: %v", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	password := rand.Text() // letters and digits alone
	if _, err := conn.Exec(ctx, "alter role "+pgx.Identifier{role}.Sanitize()+" password '"+password+"'"); err != nil {
		t.Fatalf("set the password of role %s: %v", role, err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("the address of the database is no URL: %v", err)
	}
	u.User = url.UserPassword(role, password)
	return u.String()
}
