package postgres_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/internal/postgres"
)

// Those that change the environment do not run in parallel.

func TestBinVariableThatIsWrong(t *testing.T) {
	old := t.TempDir()
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) 12.4'\n"
	for _, name := range []string{"initdb", "postgres"} {
		if err := os.WriteFile(filepath.Join(old, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for value, sentence := range map[string]string{
		t.TempDir():        "no program initdb there",
		old:                "too old",
		"download:x":       "no major version",
		"download:11":      "cannot be downloaded",
		"/does/not/exist/": "no program initdb there",
	} {
		t.Setenv(postgres.BinVariable, value)
		_, err := postgres.Start(t.Context(), postgres.Config{})
		if err == nil || !strings.Contains(err.Error(), sentence) || !strings.Contains(err.Error(), postgres.BinVariable) {
			t.Errorf("%s: err = %v; want %q", value, err, sentence)
		}
	}
}

func TestBinVariableChooses(t *testing.T) {
	s := start(t, postgres.Config{Reuse: true})
	bin := binDir(t, s)
	t.Setenv(postgres.BinVariable, bin)
	want(t, start(t, postgres.Config{Reuse: true}).URL(), "select 'up'", "up")
}

func TestNoBinariesAndNoNetwork(t *testing.T) {
	t.Parallel()
	_, said := ownerProcess(t, "", postgres.BinVariable+"=download", "HOME="+pgtest.Dir(t), "XDG_CACHE_HOME=",
		"HTTPS_PROXY=http://127.0.0.1:1") // where nobody listens
	for _, sentence := range []string{postgres.ErrNoBinaries.Error(), "download of 18", "Install PostgreSQL", postgres.BinVariable} {
		if !strings.Contains(said, sentence) {
			t.Errorf("%q is not in: %s", sentence, said)
		}
	}
}

// binDir finds out which binaries a server runs from.
func binDir(t *testing.T, s *postgres.Server) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.Dir(), "data", "postmaster.opts"))
	if err != nil {
		t.Fatal(err)
	}
	program, _, _ := strings.Cut(string(b), " ")
	return filepath.Dir(program)
}
