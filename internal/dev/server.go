package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/postgres"
)

// The databases of a directory.
const (
	// Own is for the user's own work.
	Own = "dev"
	// Shop is for a sample stream that goes on.
	Shop = "shop"
	// Sample is for a sample of a number of events, and made anew for each.
	Sample = "sample"
)

// Server is the PostgreSQL of a directory.
type Server struct {
	// Database is the one that is meant.
	Database string

	dir      Directory
	postgres *postgres.Server
	broker   string
}

// Reach finds the server of a directory and the database of its last use; it
// starts the server if it does not run.
func Reach(ctx context.Context, dir Directory, log *slog.Logger) (*Server, error) {
	s, err := dir.load()
	if err != nil {
		return nil, err
	}
	server, err := start(ctx, dir, s.PostgresPort, log)
	if err != nil {
		return nil, err
	}
	return &Server{Database: s.Database, dir: dir, postgres: server, broker: s.Broker}, nil
}

// start starts the server, on the port that it had before if that is free, or
// attaches to it.
func start(ctx context.Context, dir Directory, port int, log *slog.Logger) (*postgres.Server, error) {
	cfg := postgres.Config{Dir: dir.postgres(), Port: port, Log: log}
	server, err := postgres.Open(ctx, cfg)
	if errors.Is(err, postgres.ErrPortTaken) && port != 0 {
		cfg.Port = 0
		server, err = postgres.Open(ctx, cfg)
	}
	return server, err
}

// URL is the connection string of the database, password included.
func (s *Server) URL() string { return s.url(s.Database, true) }

// PublicURL is URL without the password.
func (s *Server) PublicURL() string { return s.url(s.Database, false) }

func (s *Server) url(database string, password bool) string {
	u, err := url.Parse(s.postgres.URL())
	if err != nil {
		panic(err) // the server made it
	}
	u.Path = "/" + database
	if !password {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

// PasswordFile holds the password.
func (s *Server) PasswordFile() string { return s.dir.PasswordFile() }

// BrokerAddr is the address at which the directory's broker listens when it runs.
func (s *Server) BrokerAddr() string { return s.broker }

// Started says whether this process started the server.
func (s *Server) Started() bool { return s.postgres.Owned() }

// others counts the sessions beside the one that asks.
const others = `select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`

// AwaitOthers waits, as long as ctx lasts, until no other process uses a server
// that this one is to stop.
func (s *Server) AwaitOthers(ctx context.Context) error {
	if !s.Started() {
		return nil
	}
	conn, err := pgx.Connect(ctx, s.url("postgres", true))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var n int
		if err := conn.QueryRow(ctx, others).Scan(&n); err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Close stops the server if this process started it.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return s.postgres.Stop(ctx)
}

// createDatabase makes the database if it is missing; fresh drops it before.
func (s *Server) createDatabase(ctx context.Context, fresh bool) error {
	conn, err := pgx.Connect(ctx, s.url("postgres", true))
	if err != nil {
		return fmt.Errorf("reach the embedded PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	name := pgx.Identifier{s.Database}.Sanitize()
	if fresh {
		if _, err := conn.Exec(ctx, "drop database if exists "+name+" with (force)"); err != nil {
			return fmt.Errorf("drop database %s: %w", s.Database, err)
		}
	}
	var there bool
	const exists = "select exists (select from pg_database where datname = $1)"
	if err := conn.QueryRow(ctx, exists, s.Database).Scan(&there); err != nil || there {
		return err
	}
	if _, err := conn.Exec(ctx, "create database "+name); err != nil {
		return fmt.Errorf("create database %s: %w", s.Database, err)
	}
	return nil
}
