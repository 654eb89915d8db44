package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/internal/postgres"
)

func TestTemporaryServerLeavesNothing(t *testing.T) {
	t.Parallel()
	s, err := postgres.Start(t.Context(), postgres.Config{Settings: map[string]string{"work_mem": "5MB"}})
	if err != nil {
		t.Fatal(err)
	}
	want(t, s.URL(), "show work_mem", "5MB")
	want(t, s.URL(), "show fsync", "on")
	want(t, s.URL(), "show server_encoding", "UTF8")
	stop(t, s)
	stop(t, s) // again, for nothing
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", s.Dir(), err)
	}
	if _, err := query(t, s.URL(), "select ''"); err == nil {
		t.Error("a stopped server answers")
	}
}

func TestServerIsClosedToOthers(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t)
	config, err := pgx.ParseConfig(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "postgres"
	if conn, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		_ = conn.Close(t.Context())
		t.Error("a wrong password is accepted")
	}
	want(t, s.URL(), "show listen_addresses", "127.0.0.1")
	for name, mode := range map[string]os.FileMode{"password": 0o600, "postgres.log": 0o600, "data": 0o700} {
		info, err := os.Stat(filepath.Join(s.Dir(), name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want mode %v", name, info.Mode(), err, mode)
		}
	}
}

func TestRestartKeepsDataAndPort(t *testing.T) {
	t.Parallel()
	for mode, name := range map[postgres.Mode]string{postgres.Clean: "clean", postgres.Immediate: "immediate", postgres.Crash: "crash"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Server(t)
			url := s.URL()
			run(t, url, "create table kept as select 'yes' as v")
			if err := s.Restart(t.Context(), mode); err != nil {
				t.Fatal(err)
			}
			if s.URL() != url {
				t.Errorf("URL changed from %s to %s", url, s.URL())
			}
			want(t, url, "select v from kept", "yes")
		})
	}
}

func TestKillCutsConnectionsAndRestartRecovers(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t)
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection outlived its server")
	}
	if err := s.Pause(); !errors.Is(err, postgres.ErrNotRunning) {
		t.Errorf("pause of a dead server: %v", err)
	}
	if err := s.Restart(t.Context(), postgres.Clean); err != nil {
		t.Fatal(err)
	}
	want(t, s.URL(), "select 'up'", "up")
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t)
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(t.Context()) }()
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-timer.C:
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("after resume: %v", err)
	}
}

func TestStopOfPausedServer(t *testing.T) {
	t.Parallel()
	s := pgtest.Server(t)
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	stop(t, s)
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = postgres.Start(t.Context(), postgres.Config{Port: port, Reuse: true})
	if !errors.Is(err, postgres.ErrPortTaken) || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("err = %v", err)
	}
}

func TestPortTakenByAnotherServer(t *testing.T) {
	t.Parallel()
	other := pgtest.Server(t)
	_, err := postgres.Start(t.Context(), postgres.Config{Port: other.Port(), Reuse: true})
	if !errors.Is(err, postgres.ErrPortTaken) {
		t.Errorf("err = %v", err)
	}
}

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	for sentence, c := range map[string]postgres.Config{
		"port 70000":        {Port: 70000},
		`setting "port"`:    {Settings: map[string]string{"port": "1"}},
		"cannot be named":   {Dir: "x", Reuse: true},
		"unrecognized conf": {Settings: map[string]string{"no_such": "1"}},
	} {
		_, err := postgres.Start(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%+v: err = %v; want %q", c, err, sentence)
		}
	}
}

func TestStartIsCutShort(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := postgres.Start(ctx, postgres.Config{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}
