package cmd_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
)

// run runs one command line away from the process's own streams and
// environment.
func run(t *testing.T, stdout io.Writer, environ []string, args ...string) (code int, stderr string) {
	t.Helper()
	var b bytes.Buffer
	code = cmd.Run(t.Context(), handlers.New(), args, strings.NewReader(""), stdout, &b, environ)
	return code, b.String()
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestWhatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"version"}, {"version", "-o", "json"}, {"config", "print"}, {"config", "print", "-o", "jsonl"}, {"config", "validate"},
	} {
		code, stderr := run(t, fullDisk{}, nil, args...)
		if code != 1 || !strings.Contains(stderr, "no space left on device") {
			t.Errorf("%v: exit %d, %q", args, code, stderr)
		}
	}
}

// TestExitCodes also holds that data goes to stdout and failures to stderr, and
// that none comes with a dump of the usage.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	for _, tc := range []struct {
		args    string
		environ []string
		code    int
	}{
		{"", nil, 0},
		{"--help", nil, 0},
		{"config --help", nil, 0},
		{"help config print", nil, 0},
		{"help confg", nil, 2},
		{"help config prnt", nil, 2},
		{"confg", nil, 2},
		{"config prnt", nil, 2},
		{"config print extra", nil, 2},
		{"config print --output", nil, 2},
		{"config print -o yaml", nil, 2},
		{"version --confg x", nil, 2},
		{"version --log-level loud", nil, 2},
		{"version --log-format xml", nil, 2},
		{"version", []string{"INBOXD_LOG_LEVEL=loud"}, 2},
		{"version --log-level debug", []string{"INBOXD_LOG_LEVEL=loud"}, 0},
		{"config validate --config " + missing, nil, 2},
		{"config validate", []string{"INBOXD_CONFIG=" + missing}, 2},
		{"config validate", []string{"INBOXD_LANES_WORKERS=0"}, 2},
		{"config validate", []string{"INBOXD_LANES_WORKERS=1"}, 0},
		{"completion bash", nil, 0},
		{"completion csh", nil, 2},
	} {
		var stdout bytes.Buffer
		code, stderr := run(t, &stdout, tc.environ, strings.Fields(tc.args)...)
		if code != tc.code {
			t.Errorf("inboxd %s: exit %d, want %d\n%s", tc.args, code, tc.code, stderr)
		}
		if (code == 0) != (stderr == "") || (code == 0) != (stdout.Len() > 0) {
			t.Errorf("inboxd %s: exit %d\nstdout %q\nstderr %q", tc.args, code, stdout.String(), stderr)
		}
		if strings.Contains(stderr, "Usage:") {
			t.Errorf("inboxd %s dumps its usage:\n%s", tc.args, stderr)
		}
	}
}

func TestEveryScriptNamesItsSubject(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range scripts {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(content), "# ") {
			t.Errorf("%s does not begin with a line that says what it shows", path)
		}
	}
}
