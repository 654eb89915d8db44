package pgtest_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/internal/postgres"
)

// caseVariable makes the test binary run one of the cases below, which are meant to fail or need
// an environment of their own.
const caseVariable = "INBOXD_PGTEST_CASE"

func TestMain(m *testing.M) { pgtest.Main(m) }

// cases are run by runCase, each in a process of its own.
var cases = map[string]func(*testing.T){
	"database": func(t *testing.T) { t.Log("got", pgtest.Database(t)) },
	"prepared": func(t *testing.T) {
		for range 2 {
			pgtest.Prepared(t, "key", func(url string) error { t.Log("prepared", url); return nil })
		}
	},
	"unprepared": func(t *testing.T) {
		pgtest.Prepared(t, "key", func(string) error { return errors.New("no table") })
	},
	"goroutine": func(t *testing.T) {
		pgtest.Database(t)
		go func() { select {} }()
	},
}

// TestCase is the one test of a process that runCase starts.
func TestCase(t *testing.T) {
	if run, ok := cases[os.Getenv(caseVariable)]; ok {
		run(t)
	}
}

// runCase runs a case in a process of its own and returns what it said and whether it passed.
func runCase(t *testing.T, name string, env ...string) (string, bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCase$", "-test.v")
	cmd.Env = append(append(os.Environ(), caseVariable+"="+name), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func parse(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func TestDatabaseIsFreshAndItsOwn(t *testing.T) {
	t.Parallel()
	for range 5 {
		t.Run("database", func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t, pgtest.Database(t))
			if _, err := pool.Exec(t.Context(), "create table mine (n int)"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// On an embedded server what fills databases runs once, and they share nothing.
func TestPreparedDatabasesAreCopies(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	for range 5 {
		t.Run("database", func(t *testing.T) {
			t.Parallel()
			pool := pgtest.Pool(t, pgtest.Prepared(t, "copies", func(url string) error {
				calls.Add(1)
				conn, err := pgx.Connect(t.Context(), url)
				if err != nil {
					return err
				}
				defer conn.Close(t.Context())
				_, err = conn.Exec(t.Context(), "create table mine (n int)")
				return err
			}))
			var n int
			if err := pool.QueryRow(t.Context(), "with i as (insert into mine values (1)) select count(*) from mine").Scan(&n); err != nil || n != 0 {
				t.Errorf("%d rows, %v", n, err)
			}
		})
	}
	t.Cleanup(func() {
		if n := calls.Load(); n != 1 && os.Getenv(pgtest.URLVariable) == "" {
			t.Errorf("prepared %d times", n)
		}
	})
}

// A server that is not ours is left without a template.
func TestPreparedOnTheServerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	out, ok := runCase(t, "prepared", pgtest.URLVariable+"="+server.URL())
	if !ok || strings.Count(out, "prepared postgres://") != 2 {
		t.Errorf("passed %v: %s", ok, out)
	}
	var left int
	err := pgtest.Pool(t, server.URL()).QueryRow(t.Context(), "select count(*) from pg_database where datname <> 'postgres' and not datistemplate").Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d databases are left, %v", left, err)
	}
}

func TestWhatCannotBePreparedFailsTheTest(t *testing.T) {
	t.Parallel()
	if out, ok := runCase(t, "unprepared"); ok || !strings.Contains(out, "prepare the database of the test: no table") {
		t.Errorf("passed %v: %s", ok, out)
	}
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("inner", func(t *testing.T) {
		config := parse(t, pgtest.Database(t))
		name = config.Database
		// Left open on purpose: the drop has to end it.
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	pool := pgtest.Pool(t, pgtest.Database(t))
	var left int
	err := pool.QueryRow(t.Context(), "select count(*) from pg_database where datname = $1", name).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d databases are left, %v", left, err)
	}
}

func TestServerIsTheTestsOwn(t *testing.T) {
	t.Parallel()
	one := pgtest.Server(t, func(c *postgres.Config) { c.Settings = map[string]string{"work_mem": "5MB"} })
	two := pgtest.Server(t)
	if one.URL() == two.URL() {
		t.Error("two tests would share a server")
	}
	var memory string
	if err := pgtest.Pool(t, one.URL()).QueryRow(t.Context(), "show work_mem").Scan(&memory); err != nil || memory != "5MB" {
		t.Errorf("work_mem = %q, %v", memory, err)
	}
}

func TestServerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	server := pgtest.Server(t)
	out, ok := runCase(t, "database", pgtest.URLVariable+"="+server.URL())
	host := strings.TrimSuffix(server.URL(), "/postgres?sslmode=disable")
	if !ok || !strings.Contains(out, "got "+host+"/test_") {
		t.Errorf("the database is not on %s: %s", host, out)
	}
}

func TestMissingServerFailsTheTest(t *testing.T) {
	t.Parallel()
	for env, sentence := range map[string]string{
		pgtest.URLVariable + "=postgres://127.0.0.1:1/postgres": "reach the server of " + pgtest.URLVariable,
		pgtest.URLVariable + "=host=":                           pgtest.URLVariable,
		postgres.BinVariable + "=/does/not/exist":               "this test needs PostgreSQL",
	} {
		out, ok := runCase(t, "database", env)
		if ok || !strings.Contains(out, "--- FAIL: TestCase") || !strings.Contains(out, sentence) {
			t.Errorf("%s: passed %v; want %q in %s", env, ok, sentence, out)
		}
	}
}

func TestGoroutineThatIsLeftFailsThePackage(t *testing.T) {
	t.Parallel()
	out, ok := runCase(t, "goroutine")
	if ok || !strings.Contains(out, "goroutines are left") || !strings.Contains(out, "--- PASS: TestCase") {
		t.Errorf("passed %v: %s", ok, out)
	}
}

func BenchmarkDatabase(b *testing.B) {
	for b.Loop() {
		pgtest.Database(b)
	}
}
