package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNone is returned when a directory holds no development servers yet.
var ErrNone = errors.New("there are no development servers")

// DefaultDir is where the data is kept unless a directory is named: below the
// user's state directory or, for root, whose home the server's account may not
// reach, in /var/lib.
func DefaultDir(getenv func(string) string) (string, error) {
	if dir := getenv("INBOXD_DEV_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "inboxd", "dev"), nil
	}
	if os.Geteuid() == 0 {
		return "/var/lib/inboxd/dev", nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", errors.New("there is no home directory to keep the data in: name a directory with --dir")
	}
	return filepath.Join(home, ".local", "state", "inboxd", "dev"), nil
}

// Directory is where the servers keep their data.
type Directory struct{ path string }

// At is the directory with a path, which need not exist.
func At(path string) Directory { return Directory{path} }

// Path is where it is.
func (d Directory) Path() string { return d.path }

func (d Directory) postgres() string { return filepath.Join(d.path, "postgres") }
func (d Directory) kafka() string    { return filepath.Join(d.path, "kafka") }
func (d Directory) stateFile() string {
	return filepath.Join(d.path, "state.json")
}

// PasswordFile holds the password of the server's user, postgres.
func (d Directory) PasswordFile() string { return filepath.Join(d.postgres(), "password") }

// state is what a later process has to know.
type state struct {
	// Database is the one that the last start used, and --dev leads to.
	Database string `json:"database"`
	// PostgresPort and Broker are where they listened last, and will again.
	PostgresPort int    `json:"postgres_port"`
	Broker       string `json:"broker"`
}

func (d Directory) load() (state, error) {
	var s state
	b, err := os.ReadFile(d.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%w in %s", ErrNone, d.path)
	}
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read the state of the development servers: %w", err)
	}
	return s, nil
}

// save replaces the state as a whole, so that no reader finds half of one.
func (d Directory) save(s state) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(d.path, "state-*")
	if err != nil {
		return fmt.Errorf("keep the state of the development servers: %w", err)
	}
	_, err = draft.Write(append(b, '\n'))
	if err = errors.Join(err, draft.Close()); err == nil {
		err = os.Rename(draft.Name(), d.stateFile())
	}
	if err != nil {
		_ = os.Remove(draft.Name())
		return fmt.Errorf("keep the state of the development servers: %w", err)
	}
	return nil
}
