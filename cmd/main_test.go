package cmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/inboxd/inboxd/internal/pgtest"
)

// TestMain makes the test binary stand in for the programs of the scripts.
func TestMain(m *testing.M) { testscript.Main(withPostgres{m}, programs) }

// withPostgres runs the tests with the server that they share.
type withPostgres struct{ m *testing.M }

func (w withPostgres) Run() int { return pgtest.Run(w.m) }

// TestScripts runs the scripts that need no database.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: setup(nil),
	})
}

// TestDatabaseScripts runs each script with an empty database of its own, which
// DATABASE_URL names.
func TestDatabaseScripts(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/database/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			dir := pgtest.Dir(t)
			testscript.Run(t, testscript.Params{
				Files: []string{script}, RequireExplicitExec: true, RequireUniqueNames: true,
				Setup: setup(map[string]string{"DATABASE_URL": pgtest.Database(t), "DEV": dir}),
			})
		})
	}
}

// setup gives a script its environment.
func setup(variables map[string]string) func(*testscript.Env) error {
	return func(env *testscript.Env) error {
		env.Setenv("GORACE", "atexit_sleep_ms=0") // or each command takes a second longer under -race
		// Where an embedded server's programs are, or are kept once downloaded.
		env.Setenv("INBOXD_POSTGRES_BIN", os.Getenv("INBOXD_POSTGRES_BIN"))
		if cache, err := os.UserCacheDir(); err == nil {
			env.Setenv("XDG_CACHE_HOME", cache)
		}
		for name, value := range variables {
			env.Setenv(name, value)
		}
		return nil
	}
}
