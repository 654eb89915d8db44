package database_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/database"
	"github.com/inboxd/inboxd/internal/pgtest"
)

// prepared says what statements the connection has prepared in the server.
func prepared(t *testing.T, conn *pgx.Conn) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), `select $1::integer`, 1).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), `select count(*) from pg_prepared_statements where statement = 'select $1::integer'`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNothingIsLeftInAPooledSession: the session is somebody else's next.
func TestNothingIsLeftInAPooledSession(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Pooler(t, pgtest.Database(t)))
	for range 100 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !database.Behind(conn.Conn().PgConn()) {
			t.Error("the pooler was not noticed")
		}
		var set string
		const traces = `select coalesce(string_agg(name, ', '), '') from pg_settings where source = 'session'`
		if err := conn.QueryRow(t.Context(), traces).Scan(&set); err != nil {
			t.Fatal(err)
		}
		if set != "" {
			t.Errorf("settings are left: %s", set)
		}
		if n := prepared(t, conn.Conn()); n != 0 {
			t.Error("a prepared statement is left")
		}
		conn.Release()
	}
	if n := pool.Stat().NewConnsCount(); n != 1 {
		t.Errorf("%d connections were opened, want that the first one is kept", n)
	}
}

func TestStatementsArePreparedWithoutAPooler(t *testing.T) {
	t.Parallel()
	pool := open(t, pgtest.Database(t))
	for i := range 200 {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if database.Behind(conn.Conn().PgConn()) {
			t.Error("a pooler was seen where there is none")
		}
		if n := prepared(t, conn.Conn()); i == 199 && n != 1 {
			t.Error("statements are not prepared")
		}
		conn.Release()
		if n := pool.Stat().NewConnsCount(); i < 20 && n != 1 {
			t.Fatalf("%d connections were opened for %d questions", n, i+1)
		}
	}
	if n := pool.Stat().NewConnsCount(); n != 2 {
		t.Errorf("%d connections were opened, want 2", n)
	}
}

// TestTheURLHasTheLastWordOnStatements: PgBouncer from 1.21 on follows prepared
// statements.
func TestTheURLHasTheLastWordOnStatements(t *testing.T) {
	t.Parallel()
	address := with(t, pgtest.Pooler(t, pgtest.Database(t)), "default_query_exec_mode", "cache_statement")
	conn, err := open(t, address).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if n := prepared(t, conn.Conn()); n != 1 {
		t.Error("statements are not prepared")
	}
}

// TestPooledSessionsThatWouldBreakGuaranteesAreRefused: they cannot be put right
// from here.
func TestPooledSessionsThatWouldBreakGuaranteesAreRefused(t *testing.T) {
	t.Parallel()
	for setting, value := range map[string]string{
		"synchronous_commit": "off", "default_transaction_isolation": "repeatable read",
	} {
		address := with(t, pgtest.Pooler(t, pgtest.Database(t)), setting, value)
		f := explained(t, address)
		if !strings.Contains(f.Sentence, setting+" is "+value) ||
			!strings.Contains(f.Remedy, `set synchronous_commit = 'on'; alter role`) ||
			!strings.Contains(f.Remedy, `set default_transaction_isolation = 'read committed';`) {
			t.Errorf("%s\nremedy: %s", f.Sentence, f.Remedy)
		}
	}
}

func TestConnectIsAsThePoolConnects(t *testing.T) {
	t.Parallel()
	conn, err := database.Connect(t.Context(), with(t, pgtest.Database(t), "synchronous_commit", "off"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if sync, name := setting(t, conn, "synchronous_commit"), setting(t, conn, "application_name"); sync != "on" || name != "inboxd" {
		t.Errorf("synchronous_commit is %q and application_name %q", sync, name)
	}
	if _, err := database.Connect(t.Context(), "postgres://a@b:x/c"); err == nil {
		t.Error("a URL that is none was taken")
	}
}
