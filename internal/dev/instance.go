package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/internal/broker"
	"github.com/inboxd/inboxd/internal/postgres"
	"github.com/inboxd/inboxd/migrations"
)

// Options say which servers Start starts.
type Options struct {
	Dir Directory
	// Database is Own, Shop or Sample.
	Database string
	// Schema is inboxd's schema in it.
	Schema string
	// Fresh drops the database and the broker's records first. A Sample is
	// always fresh.
	Fresh bool
	// Topics are made unless they exist.
	Topics map[string]int32
	// Log hears of the servers.
	Log *slog.Logger
}

// Instance is a database and a broker that run.
type Instance struct {
	*Server
	Broker *broker.Broker
}

// ErrRunning is returned by Start when another process runs the servers of the
// directory.
var ErrRunning = errors.New("another inboxd dev runs on the same directory")

// Start starts the servers, with the schema at its newest version. Those of a
// sample run beside others of the same directory; else Start fails with
// ErrRunning when the directory's are in use.
func Start(ctx context.Context, o Options) (*Instance, error) {
	kept, err := o.Dir.load()
	if err != nil && !errors.Is(err, ErrNone) {
		return nil, err
	}
	i := &Instance{Server: &Server{Database: o.Database, dir: o.Dir}}
	if i.postgres, err = startAlone(ctx, o, kept.PostgresPort); err != nil {
		return nil, err
	}
	if err = i.open(ctx, o, kept); err != nil {
		return nil, errors.Join(err, i.Close())
	}
	return i, nil
}

// open makes what is to be on the servers.
func (i *Instance) open(ctx context.Context, o Options, kept state) error {
	fresh := o.Fresh || o.Database == Sample
	if err := i.createDatabase(ctx, fresh); err != nil {
		return err
	}
	if err := i.migrate(ctx, o.Schema); err != nil {
		return err
	}
	if err := i.startBroker(o, kept, fresh); err != nil {
		return err
	}
	next := state{Database: o.Database, PostgresPort: i.postgres.Port(), Broker: kept.Broker}
	if o.Database != Sample { // whose broker nobody finds later
		next.Broker = i.Broker.Addr()
	}
	i.broker = next.Broker
	return o.Dir.save(next)
}

// startAlone starts PostgreSQL. Only a sample may use one that another process
// has started, and that ends with it.
func startAlone(ctx context.Context, o Options, port int) (*postgres.Server, error) {
	server, err := start(ctx, o.Dir, port, o.Log)
	if err != nil || server.Owned() || o.Database == Sample {
		return server, err
	}
	// A command with --dev may have it for a moment.
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		if server, err = start(ctx, o.Dir, port, o.Log); err != nil || server.Owned() {
			return server, err
		}
		timer := time.NewTimer(100 * time.Millisecond)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil, fmt.Errorf("%w: %s", ErrRunning, o.Dir.path)
}

// migrate makes the schema.
func (i *Instance) migrate(ctx context.Context, schema string) error {
	conn, err := pgx.Connect(ctx, i.URL())
	if err != nil {
		return fmt.Errorf("reach the embedded PostgreSQL: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, _, err := migrations.Up(ctx, conn, schema); err != nil {
		return err
	}
	if i.Database == Own {
		return nil
	}
	if _, err := conn.Exec(ctx, shopTables); err != nil {
		return fmt.Errorf("create the tables of the sample shop: %w", err)
	}
	return nil
}

// startBroker starts the broker, at the address it had before if that is free.
func (i *Instance) startBroker(o Options, kept state, fresh bool) error {
	cfg := broker.Config{Topics: o.Topics}
	if o.Database != Sample {
		cfg.Dir = filepath.Join(o.Dir.kafka(), o.Database)
		cfg.Ports = []int{portOf(kept.Broker)}
		if fresh {
			if err := os.RemoveAll(cfg.Dir); err != nil {
				return fmt.Errorf("remove the broker's records: %w", err)
			}
		}
	}
	var err error
	i.Broker, err = broker.Start(cfg)
	if err != nil && portOf(kept.Broker) != 0 && cfg.Dir != "" {
		cfg.Ports = []int{0}
		i.Broker, err = broker.Start(cfg)
	}
	return err
}

// portOf is the port of an address; 0 if there is none.
func portOf(address string) int {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return n
}

// Close stops what Start started.
func (i *Instance) Close() error {
	if i.Broker != nil {
		i.Broker.Close()
	}
	return i.Server.Close()
}
