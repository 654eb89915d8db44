package postgres_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/internal/postgres"
)

func TestDirectoryKeepsDataBetweenOwners(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(pgtest.Dir(t), "a", "b")
	first := start(t, postgres.Config{Dir: dir})
	run(t, first.URL(), "create table kept as select 'yes' as v")
	stop(t, first)
	second := start(t, postgres.Config{Dir: dir})
	want(t, second.URL(), "select v from kept", "yes")
}

func TestSecondOwnerIsRefusedAndMayAttach(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	if _, err := postgres.Attach(t.Context(), dir); !errors.Is(err, postgres.ErrNotRunning) {
		t.Errorf("attach before the start: %v", err)
	}
	s := start(t, postgres.Config{Dir: dir})
	if _, err := postgres.Start(t.Context(), postgres.Config{Dir: dir}); !errors.Is(err, postgres.ErrInUse) {
		t.Errorf("second start: %v", err)
	}
	for name, use := range map[string]func() (*postgres.Server, error){
		"attach": func() (*postgres.Server, error) { return postgres.Attach(t.Context(), dir) },
		"open":   func() (*postgres.Server, error) { return postgres.Open(t.Context(), postgres.Config{Dir: dir}) },
	} {
		a, err := use()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if a.URL() != s.URL() || a.Owned() || !s.Owned() {
			t.Errorf("%s: URL %s, owned %v", name, a.URL(), a.Owned())
		}
		stop(t, a) // does nothing
		if err := a.Restart(t.Context(), postgres.Clean); err == nil {
			t.Errorf("%s: restarted what it does not own", name)
		}
	}
	want(t, s.URL(), "select 'up'", "up")
	stop(t, s)
	if _, err := postgres.Attach(t.Context(), dir); !errors.Is(err, postgres.ErrNotRunning) {
		t.Errorf("attach after the stop: %v", err)
	}
}

func TestOpenStartsWhenNothingRuns(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	type result struct {
		s   *postgres.Server
		err error
	}
	results := make(chan result)
	for range 3 {
		go func() {
			s, err := postgres.Open(t.Context(), postgres.Config{Dir: dir, Fast: true})
			results <- result{s, err}
		}()
	}
	owners := 0
	for range 3 {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
			continue
		}
		if r.s.Owned() {
			owners++
			defer stop(t, r.s)
		}
	}
	if owners != 1 {
		t.Errorf("%d owners of one directory", owners)
	}
}

func TestAttachThroughLink(t *testing.T) {
	t.Parallel()
	base := pgtest.Dir(t)
	link := filepath.Join(base, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	s := start(t, postgres.Config{Dir: filepath.Join(base, "real")})
	a, err := postgres.Attach(t.Context(), link)
	if err != nil || a.URL() != s.URL() {
		t.Errorf("attach through a link: %v", err)
	}
}

func TestLockOfServerThatDiedIsStale(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	stop(t, start(t, postgres.Config{Dir: dir}))
	// What a crash of the machine leaves: the file names a process that is another one by now.
	stale := "1\n" + filepath.Join(dir, "data") + "\n1\n5432\n\n127.0.0.1\n"
	if err := os.WriteFile(filepath.Join(dir, "data", "postmaster.pid"), []byte(stale), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Attach(t.Context(), dir); !errors.Is(err, postgres.ErrNotRunning) {
		t.Errorf("attach: %v", err)
	}
	s := start(t, postgres.Config{Dir: dir})
	want(t, s.URL(), "select 'up'", "up")
}

func TestDataOfAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	stop(t, start(t, postgres.Config{Dir: dir}))
	if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("11\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Start(t.Context(), postgres.Config{Dir: dir})
	if !errors.Is(err, postgres.ErrVersion) || !strings.Contains(err.Error(), "PostgreSQL 11") {
		t.Errorf("err = %v", err)
	}
}

func TestDirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(pgtest.Dir(t), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Start(t.Context(), postgres.Config{Dir: filepath.Join(file, "sub")}); err == nil ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("below a file: %v", err)
	}
	if os.Geteuid() != 0 {
		return // a normal user reaches its own directories
	}
	closed := filepath.Join(pgtest.Dir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := postgres.Start(t.Context(), postgres.Config{Dir: filepath.Join(closed, "data")})
	if err == nil || !strings.Contains(err.Error(), "cannot reach") || !strings.Contains(err.Error(), "normal user") {
		t.Errorf("a directory that only root reaches: %v", err)
	}
}

func TestDefaultDirIsAbsolute(t *testing.T) {
	t.Parallel()
	dir, err := postgres.DefaultDir("dev")
	if err != nil || !filepath.IsAbs(dir) {
		t.Errorf("DefaultDir = %q, %v", dir, err)
	}
}

func TestReuseLeavesNoTrace(t *testing.T) {
	t.Parallel()
	first := start(t, postgres.Config{Reuse: true})
	run(t, first.URL(), "create table kept as select 'yes' as v")
	for _, sql := range []string{
		"create database other", "create role someone", "alter system set work_mem = '7MB'",
		"alter role postgres set work_mem = '8MB'",
		"select pg_create_physical_replication_slot('left')",
	} {
		run(t, first.URL(), sql)
	}
	dir := first.Dir()
	stop(t, first)
	// Other tests run beside this one, so the directory may go to one of them first.
	second := start(t, postgres.Config{Reuse: true})
	if second.Dir() != dir {
		t.Logf("got %s, not %s", second.Dir(), dir)
	}
	want(t, second.URL(), "select count(*)::text from pg_database where not datistemplate", "1")
	want(t, second.URL(), "select count(*)::text from pg_roles where rolname = 'someone'", "0")
	want(t, second.URL(), "select count(*)::text from pg_replication_slots", "0")
	want(t, second.URL(), "select count(*)::text from pg_class where relname = 'kept'", "0")
	want(t, second.URL(), "show work_mem", "4MB")
}
