package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Attach returns the server that runs on a directory, whoever owns it: its Stop does nothing.
// It fails with ErrNotRunning when there is none.
func Attach(ctx context.Context, dir string) (*Server, error) {
	path, err := resolve(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("attach to PostgreSQL on %s: %w", dir, err)
	}
	s := &Server{dir: directory{path: path}}
	p, ok := s.dir.postmaster()
	if !ok {
		return nil, fmt.Errorf("attach to PostgreSQL on %s: %w", path, ErrNotRunning)
	}
	s.port = p.port
	if s.password, err = s.dir.readPassword(); err == nil {
		err = ping(ctx, s.URL())
	}
	if err != nil {
		return nil, fmt.Errorf("attach to PostgreSQL on %s (process %d, port %d): %w", path, p.pid, p.port, err)
	}
	return s, nil
}

// Open attaches to the server of the directory when one runs, and else starts it; Owned tells which.
// While another process starts or stops it, Open waits. An attached server ends with its owner.
func Open(ctx context.Context, c Config) (*Server, error) {
	if c.Dir == "" {
		return Start(ctx, c)
	}
	var s *Server
	var last error
	err := poll(ctx, func() bool {
		if s, last = Attach(ctx, c.Dir); last == nil {
			return true
		}
		s, last = Start(ctx, c)
		return !errors.Is(last, ErrInUse)
	})
	return s, errors.Join(last, err)
}

// evict stops a server whose owner is dead. Only who holds the directory's lock may call it.
func (d directory) evict(ctx context.Context) error {
	p, ok := d.postmaster()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	mode := Clean
	if d.temp {
		mode = Immediate
	}
	err := endProcess(ctx, p.pid, mode, func(ctx context.Context) error {
		return poll(ctx, func() bool { return !alive(p.pid) })
	})
	if err != nil {
		return fmt.Errorf("stop the server that its owner left behind (process %d): %w", p.pid, err)
	}
	return nil
}

// endProcess ends a postmaster and waits, killing it when the context ends first.
func endProcess(ctx context.Context, pid int, mode Mode, wait func(context.Context) error) error {
	left, err := terminate(pid, mode)
	if err != nil {
		return err
	}
	forever := context.WithoutCancel(ctx)
	if err := wait(ctx); err != nil {
		_, killed := terminate(pid, Crash)
		return errors.Join(fmt.Errorf("it did not stop in time and was killed: %w", err), killed, wait(forever))
	}
	if mode == Clean {
		return nil // its children went before it
	}
	// A child that lives on keeps the shared memory, and with it the next start, in use.
	last, cancel := context.WithTimeout(forever, 5*time.Second)
	defer cancel()
	return poll(last, func() bool { return !slices.ContainsFunc(left, alive) })
}

// sweep removes the temporary directories of owners that died, with their servers.
func sweep(ctx context.Context) {
	for _, base := range []string{os.TempDir(), memory} {
		paths, _ := filepath.Glob(filepath.Join(base, tempPrefix+"*"))
		for _, path := range paths {
			abandoned(ctx, path)
		}
	}
}

// abandoned removes one temporary directory if its lock is free. What cannot be removed belongs to
// someone else or is for the next sweep.
func abandoned(ctx context.Context, path string) {
	d := directory{path: path, temp: true}
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || !strings.HasPrefix(info.Name(), tempPrefix) {
		return
	}
	if uid, _ := owner(info); uid != os.Geteuid() {
		return
	}
	if made, err := os.Lstat(d.lock()); err != nil || time.Since(made.ModTime()) < time.Minute {
		return // its owner may be about to take the lock
	}
	lock, err := lockFile(d.lock())
	if err != nil {
		return
	}
	defer lock.Close()
	if d.evict(ctx) == nil {
		_ = os.RemoveAll(path)
	}
}
