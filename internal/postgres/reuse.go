package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// slots is how many servers with Config.Reuse can run at once for one user.
const slots = 64

// startReused starts a server on a directory that an earlier one has left, emptied, or on a new one.
func startReused(ctx context.Context, c Config) (*Server, error) {
	a, err := accountFor("")
	if err != nil {
		return nil, err
	}
	b, err := findBinaries(ctx, c, a, 0)
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, owned: true}
	if s.dir, s.lock, err = takeSlot(a, b.major); err != nil {
		return nil, err
	}
	if err = s.openReused(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrPortTaken) {
		err = errors.Join(s.shutdown(ctx, Immediate), s.dir.discard(), s.open(ctx))
	}
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// openReused starts the server on what is in the directory and empties it.
func (s *Server) openReused(ctx context.Context) error {
	if err := s.dir.evict(ctx); err != nil {
		return err
	}
	// Without fsync, data is whole after a clean end, or if no power cut can have come between.
	_, err := os.Stat(s.dir.pid())
	if err == nil && !inMemory(s.dir.path) {
		if err := s.dir.discard(); err != nil {
			return err
		}
	}
	// What alter system has set.
	if err := os.Truncate(filepath.Join(s.dir.data(), "postgresql.auto.conf"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	major, err := s.dir.major()
	if err != nil {
		return err
	}
	if err := s.open(ctx); err != nil || major == 0 {
		return err
	}
	return s.empty(ctx)
}

// takeSlot returns the first directory that no other process has, with its lock.
func takeSlot(a account, major int) (directory, *os.File, error) {
	pool, err := pool(a)
	if err != nil {
		return directory{}, nil, err
	}
	pool = filepath.Join(pool, strconv.Itoa(major)+"-"+strconv.Itoa(a.uid))
	for slot := range slots {
		d := directory{path: filepath.Join(pool, strconv.Itoa(slot)), account: a}
		if err := makeReachable(a, d.path); err != nil {
			return d, nil, err
		}
		lock, err := lockFile(d.lock())
		if errors.Is(err, ErrInUse) {
			continue
		}
		return d, lock, err
	}
	return directory{}, nil, fmt.Errorf("%w: all %d directories in %s", ErrInUse, slots, pool)
}

// discard removes the data.
func (d directory) discard() error { return os.RemoveAll(d.data()) }

const (
	// What a server may keep from its last user. They read catalogs of a few rows.
	listDatabases = `select datname from pg_database where not datistemplate`
	listRoles     = `select rolname from pg_roles where oid >= 16384`
	resetSettings = `alter role postgres reset all`
	dropSlots     = `select pg_drop_replication_slot(slot_name) from pg_replication_slots`
)

// empty drops all databases, replication slots and roles, and makes database postgres anew.
func (s *Server) empty(ctx context.Context) error {
	config, err := pgx.ParseConfig(s.URL())
	if err != nil {
		return err
	}
	config.Database = "template1"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{dropSlots, resetSettings} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := dropAll(ctx, conn, listDatabases, "drop database %s with (force)"); err != nil {
		return err
	}
	if err := dropAll(ctx, conn, listRoles, "drop role %s"); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "create database postgres template template0")
	return err
}

// dropAll runs a statement for each name that a query lists.
func dropAll(ctx context.Context, conn *pgx.Conn, list, drop string) error {
	rows, err := conn.Query(ctx, list)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := conn.Exec(ctx, fmt.Sprintf(drop, pgx.Identifier{name}.Sanitize())); err != nil {
			return err
		}
	}
	return nil
}
