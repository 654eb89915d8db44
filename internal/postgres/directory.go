package postgres

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// superuser is the role every server is made with.
const superuser = "postgres"

// directory is what Config.Dir names.
type directory struct {
	path    string
	account account
	temp    bool // removed at the end
}

func (d directory) data() string     { return filepath.Join(d.path, "data") }
func (d directory) password() string { return filepath.Join(d.path, "password") }
func (d directory) log() string      { return filepath.Join(d.path, "postgres.log") }
func (d directory) lock() string     { return filepath.Join(d.path, "lock") }
func (d directory) pid() string      { return filepath.Join(d.data(), "postmaster.pid") }

// DefaultDir returns a directory for data that is kept, one that always fits: below the user's
// cache directory, or /var/lib/inboxd for root, whose home the account may not reach.
func DefaultDir(name string) (string, error) {
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib/inboxd", name), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for the data: %w", err)
	}
	return filepath.Join(cache, "inboxd", name), nil
}

// openDirectory creates the directory if it is missing; "" is a new temporary one.
func openDirectory(path string, fast bool) (directory, error) {
	a, err := accountFor(path)
	if err != nil {
		return directory{}, err
	}
	if path == "" {
		return tempDirectory(a, fast)
	}
	if path, err = filepath.Abs(path); err != nil {
		return directory{}, err
	}
	if err := makeReachable(a, path); err != nil {
		return directory{}, err
	}
	path, err = resolve(path)
	return directory{path: path, account: a}, err
}

// resolve returns the one absolute path of a directory, by which a server is recognised.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// makeReachable creates a directory if it is missing, open to the account whatever the umask.
func makeReachable(a account, path string) error {
	if _, err := os.Stat(path); err == nil {
		return a.reach(path)
	}
	if parent := filepath.Dir(path); parent != path {
		if err := makeReachable(a, parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create the directory for PostgreSQL: %w", err)
	}
	if a.switched {
		return os.Chmod(path, 0o755)
	}
	return nil
}

// major returns the major version that made the data; zero: there is none yet.
func (d directory) major() (int, error) {
	b, err := os.ReadFile(filepath.Join(d.data(), "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the data: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0, fmt.Errorf("%w: %s/PG_VERSION says %q", ErrVersion, d.data(), bytes.TrimSpace(b))
	}
	return major, nil
}

// init makes the data. It appears in its place when it is complete.
func (d directory) init(ctx context.Context, b binaries) error {
	draft := d.data() + ".new"
	if err := os.RemoveAll(draft); err != nil {
		return fmt.Errorf("remove data that was left unfinished: %w", err)
	}
	if err := os.Mkdir(draft, 0o700); err != nil {
		return fmt.Errorf("create the data: %w", err)
	}
	if err := errors.Join(d.account.own(draft), d.newPassword()); err != nil {
		return fmt.Errorf("create the data: %w", err)
	}
	cmd := d.command(ctx, b, "initdb", "--pgdata", draft, "--no-sync", "--no-instructions",
		"--username", superuser, "--pwfile", d.password(), "--auth", "scram-sha-256",
		"--encoding", "UTF8", "--locale", "C")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	p, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("run %s as user %s: %w", cmd.Path, d.account.name, err)
	}
	<-p.done // the command is killed when the context ends
	if p.err != nil {
		return fmt.Errorf("create the data with %s: %w: %s", cmd.Path, errors.Join(p.err, ctx.Err()), tail(said.Bytes()))
	}
	return os.Rename(draft, d.data())
}

func (d directory) newPassword() error {
	if err := os.WriteFile(d.password(), []byte(rand.Text()+"\n"), 0o600); err != nil {
		return err
	}
	return errors.Join(os.Chmod(d.password(), 0o600), d.account.own(d.password()))
}

func (d directory) readPassword() (string, error) {
	b, err := os.ReadFile(d.password())
	if err != nil {
		return "", fmt.Errorf("read the server's password: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// command is a program of PostgreSQL under the account, in an environment without the caller's own.
func (d directory) command(ctx context.Context, b binaries, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(b.dir, name), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C"}
	for _, key := range []string{"PATH", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(key); ok {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
	}
	cmd.SysProcAttr = processAttributes(d.account)
	return cmd
}

// postmaster is what the server's own file says of it.
type postmaster struct {
	pid, port int
}

// postmaster returns the server that runs on the directory, if one does.
func (d directory) postmaster() (postmaster, bool) {
	b, err := os.ReadFile(d.pid())
	if err != nil {
		return postmaster{}, false
	}
	lines := strings.Split(string(b), "\n") // pid, data directory, start, port, …
	if len(lines) < 4 {
		return postmaster{}, false
	}
	var p postmaster
	p.pid, _ = strconv.Atoi(lines[0])
	p.port, _ = strconv.Atoi(lines[3])
	if p.pid <= 1 || !strings.Contains(commandLine(p.pid), d.data()) {
		return postmaster{}, false
	}
	return p, true
}

// tail returns the last lines of what a program said.
func tail(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
