//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/internal/postgres"
)

func TestServerIsInItsOwnProcessGroup(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t)
	group, err := syscall.Getpgid(serverPID(t, s.Dir()))
	if err != nil || group == syscall.Getpgrp() {
		t.Errorf("group %d, %v; an interrupt at the terminal would reach the server", group, err)
	}
}

// The server is frozen when its owner dies, so it cannot end by itself.
func TestServerOfDeadOwnerIsReplaced(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	kill, url := owner(t, dir)
	run(t, url, "create table kept as select 'yes' as v")
	first := serverPID(t, dir)
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	kill()
	s := start(t, postgres.Config{Dir: dir})
	if second := serverPID(t, dir); second == first {
		t.Error("the server of the dead owner still runs")
	}
	want(t, s.URL(), "select v from kept", "yes")
}

func TestTemporaryDirectoryOfDeadOwnerIsRemoved(t *testing.T) {
	t.Parallel()
	kill, url := owner(t, "")
	data, err := query(t, url, "show data_directory")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(data)
	kill()
	hour := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "lock"), hour, hour); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// The start of any temporary server looks for them; this one need not get further.
	_, err = postgres.Start(ctx, postgres.Config{Settings: map[string]string{"no_such": "1"}})
	if err == nil {
		t.Error("a setting that does not exist is accepted")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
}
