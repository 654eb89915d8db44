package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// memoryWanted is how much has to be free in memory for it to hold the data of tests.
const memoryWanted = 4 << 30

// Scratch returns the directory for temporary ones whose data may be lost: in memory where the
// system offers that, there is room, and TMPDIR does not say otherwise; creating a database means
// some 300 files, which takes a disk ten times as long.
func Scratch() string {
	if os.Getenv("TMPDIR") == "" && memoryFree() >= memoryWanted {
		return memory
	}
	return os.TempDir()
}

func inMemory(path string) bool { return memory != "" && strings.HasPrefix(path, memory+"/") }

// bases are the directories that temporary ones may be in, the preferred ones first.
func bases(fast bool) []string {
	if fast {
		return []string{Scratch(), os.TempDir(), "/tmp", "/var/tmp"}
	}
	return []string{os.TempDir(), "/tmp", "/var/tmp"}
}

// tempPrefix begins the name of each temporary directory.
const tempPrefix = "inboxd-postgres-"

func tempDirectory(a account, fast bool) (directory, error) {
	base, err := tempBase(a, fast)
	if err != nil {
		return directory{}, err
	}
	path, err := os.MkdirTemp(base, tempPrefix)
	if err != nil {
		return directory{}, fmt.Errorf("create a temporary directory for PostgreSQL: %w", err)
	}
	d := directory{path: path, account: a, temp: true}
	if a.switched {
		err = os.Chmod(path, 0o711)
	}
	return d, err
}

// tempBase returns the directory for temporary ones, which the account can reach.
func tempBase(a account, fast bool) (string, error) {
	var all error
	for _, base := range bases(fast) {
		err := a.reach(base)
		if err == nil {
			return base, nil
		}
		all = errors.Join(all, err)
	}
	return "", all
}

// pool returns the directory of the directories that are reused.
func pool(a account) (string, error) {
	if Scratch() == memory {
		path := filepath.Join(memory, fmt.Sprintf("inboxd-%d", os.Geteuid()))
		if ownDir(a, path) == nil {
			return path, nil
		}
	}
	cache, err := cacheDir(a)
	return filepath.Join(cache, "servers"), err
}

// ownDir creates a directory where everybody can, and makes sure that it is one's own.
func ownDir(a account, path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if uid, _ := owner(info); !info.IsDir() || uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to someone else", path)
	}
	return errors.Join(os.Chmod(path, 0o755), a.reach(path))
}
