package cmd

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/internal/config"
	pgdatabase "github.com/inboxd/inboxd/internal/database"
	"github.com/inboxd/inboxd/internal/dev"
	"github.com/inboxd/inboxd/internal/fault"
	"github.com/inboxd/inboxd/migrations"
)

// database is the database that a command works on. Whoever got one closes it.
type database struct {
	pool   *pgxpool.Pool
	config *config.Config // what is in effect, --dev included
	schema string
	dev    *dev.Server // with --dev
}

// openDatabase opens the database that the configuration names or, with --dev,
// that of the development servers, and returns when it answers and its schema
// is the one that this program works with. Its failures have their exit code.
func (a *app) openDatabase(ctx context.Context) (*database, error) {
	db, err := a.dialDatabase(ctx)
	if err != nil {
		return nil, err
	}
	if err := db.checkSchema(ctx); err != nil {
		db.close()
		return nil, err
	}
	return db, nil
}

// openDirect is openDatabase for a command that needs a session of its own: it
// goes past a connection pooler, if the configuration says how.
func (a *app) openDirect(ctx context.Context) (*database, error) {
	db, err := a.openDatabase(ctx)
	if err != nil || db.config.Database.DirectURL == "" {
		return db, err
	}
	db.pool.Close()
	direct := *db.config
	direct.Database.URL = direct.Database.DirectURL
	if db.pool, err = openPool(&direct); err != nil {
		db.close()
		return nil, err
	}
	return db, nil
}

// directHint is for a command that found a connection pooler before the server.
const directHint = "set database.direct_url to lead to the same database past the pooler"

// dialDatabase is openDatabase for a command that can do without the schema.
func (a *app) dialDatabase(ctx context.Context) (*database, error) {
	db, err := a.poolDatabase(ctx)
	if err != nil {
		return nil, err
	}
	if err := db.pool.Ping(ctx); err != nil {
		db.close()
		return nil, databaseFailure(err)
	}
	return db, nil
}

// poolDatabase makes the pool and connects to nothing: the database may be away.
func (a *app) poolDatabase(ctx context.Context) (*database, error) {
	db := &database{}
	var err error
	if db.config, err = a.config(); err != nil {
		return nil, err
	}
	if a.global.dev {
		if err := a.useDev(ctx, db); err != nil {
			return nil, err
		}
	} else if a.global.dir != "" {
		return nil, wrongUse("--dir names the directory of the development servers, but --dev is not given").
			withHint("add --dev, or leave --dir out")
	}
	db.schema = db.config.Database.Schema
	db.pool, err = openPool(db.config)
	if err != nil {
		db.close()
		return nil, err
	}
	return db, nil
}

// openPool makes the pool of a configuration. The listener has a connection
// beside it.
func openPool(c *config.Config) (*pgxpool.Pool, error) {
	pool, err := pgdatabase.Open(pgdatabase.Config{URL: c.Database.URL, MaxConnections: c.Database.MaxConnections - 1})
	if err != nil {
		return nil, wrongUse("%w", err)
	}
	return pool, nil
}

// useDev has the configuration lead to the development servers.
func (a *app) useDev(ctx context.Context, db *database) error {
	dir, err := a.devDirectory()
	if err != nil {
		return err
	}
	db.dev, err = dev.Reach(ctx, dir, a.log)
	switch {
	case errors.Is(err, dev.ErrNone):
		return notFound("%w", err).withHint("start some with: inboxd dev")
	case err != nil:
		return unreachable("the development servers in %s cannot be used: %w", dir.Path(), err)
	}
	db.config.Database.URL, db.config.Database.URLFile = db.dev.URL(), ""
	db.config.Database.DirectURL, db.config.Database.DirectURLFile = "", ""
	if broker := db.dev.BrokerAddr(); broker != "" {
		db.config.Kafka.Brokers = []string{broker}
		db.config.Kafka.TLS, db.config.Kafka.SASL = config.TLS{}, config.SASL{}
	}
	return nil
}

func (a *app) devDirectory() (dev.Directory, error) {
	if a.global.dir != "" {
		return dev.At(a.global.dir), nil
	}
	path, err := dev.DefaultDir(a.getenv)
	if err != nil {
		return dev.Directory{}, wrongUse("%w", err)
	}
	return dev.At(path), nil
}

// close closes the pool and, if this process started the development server,
// stops it.
func (d *database) close() { d.end(true) }

// end is close. If whole is false, something has not returned its connection,
// and the pool ends with the process.
func (d *database) end(whole bool) {
	if d.pool != nil && whole {
		d.pool.Close()
	}
	if d.dev == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), othersLimit)
	defer cancel()
	_ = d.dev.AwaitOthers(ctx) // who takes longer loses the server
	_ = d.dev.Close()          // the next start puts right what this leaves
}

// othersLimit is how long a command that started the development server for
// itself leaves it to others that found it, such as the next one of a pipe.
const othersLimit = 15 * time.Second

// checkSchema compares the schema with what this program works with.
func (d *database) checkSchema(ctx context.Context) error {
	version, err := migrations.Current(ctx, d.pool, d.schema)
	if err != nil {
		return databaseFailure(err)
	}
	return schemaFailure(d.schema, version)
}

// schemaFailure says what is wrong with a version of the schema; nil: nothing.
func schemaFailure(schema string, version int32) error {
	switch {
	case version == 0:
		return failed("the database has no schema %q of inboxd yet", schema).withHint("create it with: inboxd migrate up")
	case version < migrations.Version:
		return failed("the schema %q is at version %d, older than version %d that this program works with",
			schema, version, migrations.Version).withHint("bring it up to date with: inboxd migrate up")
	case version > migrations.Version:
		return failed("the schema %q is at version %d, newer than version %d that this program works with",
			schema, version, migrations.Version).withHint("use the version of inboxd that the schema was made for, or a newer one")
	}
	return nil
}

// databaseFailure gives an error of the database its sentence and its code.
func databaseFailure(err error) error {
	if f, ok := pgdatabase.Explain(err); ok {
		return unreachable("%w", f).withHint("%s", f.Remedy)
	}
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == "42501" { // insufficient_privilege
		return failed("the database does not permit that: %w", err).
			withHint("log in as a role that may do it, or see inboxd doctor, which prints the SQL that grants what is missing")
	}
	if fault.Of(err) == fault.Outage {
		return unreachable("the database went away: %w", err).withHint("%s", databaseHint(err))
	}
	return err
}
