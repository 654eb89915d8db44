package postgres

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

var (
	// ErrInUse is returned by Start when a living process owns the server of the directory.
	ErrInUse = errors.New("directory is in use")
	// ErrNotRunning is returned by Attach when no server runs on the directory.
	ErrNotRunning = errors.New("no server is running")
	// ErrNoBinaries is returned by Start when PostgreSQL is neither installed nor could be downloaded.
	ErrNoBinaries = errors.New("no PostgreSQL found")
	// ErrVersion is returned by Start when the data was made by a major version that is not at hand.
	ErrVersion = errors.New("data of another PostgreSQL version")
	// ErrPortTaken is returned by Start when something else listens on the port that was asked for.
	ErrPortTaken = errors.New("port is taken")
)

// startTimeout bounds the wait for a server that was started, crash recovery included.
const startTimeout = 60 * time.Second

// stopTimeout bounds the wait for a server that was told to stop, before it is killed.
const stopTimeout = 30 * time.Second

// Config says how a server runs. The zero value is a server on a free port whose data is
// removed when it stops.
type Config struct {
	// Dir is the directory the data is kept in. It is created when missing.
	// Empty: a temporary one, removed by Stop.
	Dir string
	// Reuse makes the temporary directory of an empty Dir one that an earlier server has left, since a
	// new one takes a second: every database, role and setting in it is dropped first. Stop leaves
	// it to the next. For tests, with Fast. Default false.
	Reuse bool
	// Port is the TCP port on 127.0.0.1. Zero: a free one.
	Port int
	// Settings are server settings, as in postgresql.conf; they win over those of this package.
	Settings map[string]string
	// Fast trades the safety of the data against a power cut for speed: fsync is off, and a temporary
	// directory is in memory if it can be (see Scratch). A killed server still keeps all that was
	// committed. For tests. Default false.
	Fast bool
	// Log hears of starts and stops at level debug and of downloads at level info. Nil: nobody.
	// What the server itself says is in the file postgres.log of the directory.
	Log *slog.Logger
}

func (c Config) validate() error {
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("port %d is not between 1 and 65535", c.Port)
	}
	if c.Reuse && c.Dir != "" {
		return errors.New("a directory cannot be named and be one of those that are reused")
	}
	for _, name := range []string{"port", "listen_addresses", "data_directory", "unix_socket_directories"} {
		if _, ok := c.Settings[name]; ok {
			return fmt.Errorf("setting %q cannot be changed: it is set by the embedded server", name)
		}
	}
	return nil
}

func (c Config) logger() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

// settings are those the server is started with, by name.
func (c Config) settings(port int) map[string]string {
	s := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    fmt.Sprint(port),
		"unix_socket_directories": "",
		"logging_collector":       "off",
		"lc_messages":             "C",
	}
	if c.Fast {
		// Commits stay synchronous: with synchronous_commit off a killed server forgets some.
		s["fsync"] = "off"
		s["dynamic_shared_memory_type"] = "mmap" // goes with the data of a server that was killed
		s["full_page_writes"] = "off"
		s["max_wal_size"] = "256MB"
		s["max_connections"] = "300"
	}
	for name, value := range c.Settings {
		s[name] = value
	}
	return s
}
