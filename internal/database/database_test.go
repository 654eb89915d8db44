package database_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/internal/database"
	"github.com/inboxd/inboxd/internal/pgtest"
)

func open(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := database.Open(database.Config{URL: url, MaxConnections: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func setting(t *testing.T, conn interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, name string) (v string) {
	t.Helper()
	if err := conn.QueryRow(context.Background(), "select current_setting($1)", name).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// with adds to the query of a URL.
func with(t *testing.T, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // which PostgreSQL does not take for a space
	return u.String()
}

func TestSessionsKeepTheGuarantees(t *testing.T) {
	t.Parallel()
	address := with(t, pgtest.Database(t), "options",
		"-c default_transaction_isolation=serializable -c synchronous_commit=off -c statement_timeout=70s")
	pool := open(t, address)
	if max := pool.Config().MaxConns; max != 2 {
		t.Errorf("at most %d connections, want 2", max)
	}
	listener, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig.Copy())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close(context.Background())
	for name, want := range map[string]string{
		"application_name":                 "inboxd",
		"default_transaction_isolation":    "read committed",
		"synchronous_commit":               "on",
		"statement_timeout":                "70s",
		"tcp_keepalives_idle":              "10",
		"client_connection_check_interval": "2s",
	} {
		if got := setting(t, pool, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		if got := setting(t, listener, name); got != want {
			t.Errorf("of a connection beside the pool, %s is %q, want %q", name, got, want)
		}
	}
}

func TestAStricterSynchronousCommitStays(t *testing.T) {
	t.Parallel()
	address := with(t, pgtest.Database(t), "options", "-c synchronous_commit=remote_apply")
	pool := open(t, with(t, address, "application_name", "mine"))
	if got := setting(t, pool, "synchronous_commit"); got != "remote_apply" {
		t.Errorf("synchronous_commit is %q", got)
	}
	if got := setting(t, pool, "application_name"); got != "mine" {
		t.Errorf("application_name is %q", got)
	}
}

func TestAServerWithoutASettingIsUsed(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), with(t, pgtest.Database(t), "options", "-c synchronous_commit=off"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	unknown := append([]string{"set_config('no_such_setting', '1', false)"}, database.Welcome...)
	if err := database.Settle(t.Context(), conn.PgConn(), database.Needed, unknown); err != nil {
		t.Fatal(err)
	}
	if sync, idle := setting(t, conn, "synchronous_commit"), setting(t, conn, "tcp_keepalives_idle"); sync != "on" || idle != "10" {
		t.Errorf("synchronous_commit is %q and tcp_keepalives_idle is %q", sync, idle)
	}
}

// explained connects to where nobody lets it in.
func explained(t *testing.T, address string) *database.Failure {
	t.Helper()
	err := open(t, address).Ping(t.Context())
	f, ok := database.Explain(err)
	if !ok {
		t.Fatalf("not explained: %v", err)
	}
	if !errors.Is(f, err) || strings.Contains(f.Sentence+f.Remedy, "s3cret") {
		t.Errorf("%s (%s)", f.Sentence, f.Remedy)
	}
	return f
}

func TestFailuresAreSentences(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string, user *url.Userinfo) string {
		v := *u
		v.Path, v.User = path, user
		return v.String()
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for address, parts := range map[string][2]string{
		at("/absent", u.User):                                                    {`there is no database "absent" at ` + u.Host, "createdb absent"},
		"postgres://a:s3cret@127.0.0.1:1/x":                                      {"no PostgreSQL answers at 127.0.0.1:1: connection refused", "check that PostgreSQL runs there"},
		"postgres://a:s3cret@127.0.0.1:1,127.0.0.1:2/x":                          {"no PostgreSQL answers at 127.0.0.1:1 or 127.0.0.1:2: connection refused", "inboxd config print"},
		"postgres://a:s3cret@nowhere.invalid/x":                                  {`no PostgreSQL answers at nowhere.invalid:5432: the name "nowhere.invalid" is not known`, ""},
		"postgres://a:s3cret@/x?host=/nowhere":                                   {"no PostgreSQL answers at /nowhere (port 5432): ", ""},
		"postgres://a:s3cret@" + silent.Addr().String() + "/x?connect_timeout=1": {"no PostgreSQL answers at " + silent.Addr().String() + ": it took too long", ""},
		with(t, address, "sslmode", "require"):                                   {"the database at " + u.Host + " cannot be reached over TLS: server refused TLS connection", "sslmode=disable"},
		with(t, address, "options", "-c no_such_setting=1"):                      {`the database at ` + u.Host + ` refuses the connection: unrecognized configuration parameter "no_such_setting" (SQLSTATE 42704)`, ""},
		with(t, address, "target_session_attrs", "standby"):                      {"no PostgreSQL answers at " + u.Host, ""},
	} {
		f := explained(t, address)
		if !strings.Contains(f.Sentence, parts[0]) || !strings.Contains(f.Remedy, parts[1]) {
			t.Errorf("%s\nremedy: %s\nwant %q and %q", f.Sentence, f.Remedy, parts[0], parts[1])
		}
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.Server(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("postgres", "s3cret")
	if f := explained(t, u.String()); !strings.Contains(f.Sentence, `does not accept the password of user "postgres"`) {
		t.Error(f.Sentence)
	}
	u.User = url.User("postgres")
	if f := explained(t, u.String()); !strings.Contains(f.Sentence, `asks for a password of user "postgres", and none was given`) {
		t.Error(f.Sentence)
	}
}

func TestOtherErrorsAreNotExplained(t *testing.T) {
	t.Parallel()
	if f, ok := database.Explain(errors.New("other")); ok {
		t.Errorf("explained: %v", f)
	}
	if _, err := database.Open(database.Config{URL: "postgres://a@b:x/c"}); err == nil {
		t.Error("a URL that is none was taken")
	}
}
