package postgres

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// BinVariable is the environment variable that chooses the binaries: a directory with initdb and
// postgres, "download", or "download:MAJOR".
const BinVariable = "INBOXD_POSTGRES_BIN"

// oldest is the oldest major version that is supported.
const oldest = 14

// usual are the directories packages install PostgreSQL in.
var usual = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/lib/postgresql*/bin",
	"/usr/libexec/postgresql*",
	"/usr/pgsql-*/bin",
	"/usr/local/pgsql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/opt/local/lib/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/local/bin",
	"/usr/bin",
}

// binaries is a directory with initdb and postgres.
type binaries struct {
	dir          string
	major, minor int
}

func (b binaries) String() string {
	return fmt.Sprintf("PostgreSQL %d.%d in %s", b.major, b.minor, b.dir)
}

// findBinaries returns the binaries to use for data of the given major version; zero: no data yet.
func findBinaries(ctx context.Context, c Config, a account, major int) (binaries, error) {
	choice := os.Getenv(BinVariable)
	if want, ok := strings.CutPrefix(choice, "download"); ok {
		return downloadChosen(ctx, c, a, strings.TrimPrefix(want, ":"), major)
	}
	if choice != "" {
		b, err := inspect(ctx, choice)
		if err != nil {
			return b, fmt.Errorf("%w: %s=%s: %w", ErrNoBinaries, BinVariable, choice, err)
		}
		return b, b.fits(major)
	}
	found := installed(ctx)
	if err := ctx.Err(); err != nil {
		return binaries{}, err // nothing was found for want of time
	}
	if len(found) == 0 {
		return downloadBinaries(ctx, c, a, major)
	}
	return pick(ctx, found, a, major)
}

// pick takes the newest of what was found, or what has made the data.
func pick(ctx context.Context, found []binaries, a account, major int) (binaries, error) {
	newest := found[0]
	if major == 0 {
		return newest, nil
	}
	for _, b := range found {
		if b.major == major {
			return b, nil
		}
	}
	if b, ok := downloaded(ctx, a, major); ok {
		return b, nil
	}
	return newest, newest.fits(major)
}

// fits says whether the binaries can run data of the given major version.
func (b binaries) fits(major int) error {
	if major == 0 || major == b.major {
		return nil
	}
	return fmt.Errorf("%w: the data was made by PostgreSQL %d, and this is %s: "+
		"set %s to the bin directory of a PostgreSQL %d, or move the directory away to begin with an empty one",
		ErrVersion, major, b, BinVariable, major)
}

// installed returns the binaries on the machine that can be used, newest first.
func installed(ctx context.Context) []binaries {
	var found []binaries
	for _, dir := range candidates() {
		if b, err := inspect(ctx, dir); err == nil {
			found = append(found, b)
		}
	}
	slices.SortStableFunc(found, func(x, y binaries) int {
		return cmp.Or(cmp.Compare(y.major, x.major), cmp.Compare(y.minor, x.minor))
	})
	return found
}

// candidates are the directories that may hold binaries, each once, behind all symbolic links:
// a link to postgres in PATH seldom has initdb beside it.
func candidates() []string {
	var dirs []string
	add := func(path string) {
		if real, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(dirs, filepath.Dir(real)) {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, name := range []string{"postgres", "initdb"} {
		if path, err := exec.LookPath(name); err == nil {
			add(path)
		}
	}
	for _, pattern := range usual {
		paths, _ := filepath.Glob(filepath.Join(pattern, "postgres"))
		for _, path := range paths {
			add(path)
		}
	}
	return dirs
}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)(?:\.(\d+))?`)

// inspect returns the binaries in dir if they can be used.
func inspect(ctx context.Context, dir string) (binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return binaries{}, err
	}
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return binaries{}, fmt.Errorf("no program %s there: %w", name, err)
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("run postgres --version: %w", err)
	}
	m := versionPattern.FindSubmatch(out)
	if m == nil {
		return binaries{}, fmt.Errorf("postgres --version says %q, which is no version", strings.TrimSpace(string(out)))
	}
	b := binaries{dir: dir}
	b.major, _ = strconv.Atoi(string(m[1]))
	b.minor, _ = strconv.Atoi(string(m[2]))
	if b.major < oldest {
		return b, fmt.Errorf("%s is too old: %d or newer is needed", b, oldest)
	}
	return b, nil
}
