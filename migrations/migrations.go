// Package migrations holds the schema of inboxd as numbered SQL files and
// applies them.
//
// A file is applied once, in a transaction of its own, in the order of the
// numbers; the table schema_version remembers the last. A second migrator waits
// for the first. Files are templates only for the name of the schema.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/tern/v2/migrate"
)

//go:embed *.sql
var files embed.FS

// Version is the version of the schema that this build works with.
const Version = 6

// lockKey is the advisory lock that migrators take; any constant will do.
const lockKey = 0x696e626f78

// Channel is the name on which a schema's processes are told of new events.
func Channel(schema string) string { return schema + "_wake" }

// Up brings the schema to Version and answers the versions before and after. It
// creates the schema if there is none, and changes nothing if it is up to date
// or newer.
func Up(ctx context.Context, conn *pgx.Conn, schema string) (from, to int32, err error) {
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", int64(lockKey)); err != nil {
		return 0, 0, fmt.Errorf("wait for other migrators: %w", err)
	}
	defer func() {
		// The lock ends with the connection if this fails.
		_, unlockErr := conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock($1)", int64(lockKey))
		err = errors.Join(err, unlockErr)
	}()
	if err := prepare(ctx, conn, schema); err != nil {
		return 0, 0, err
	}
	m, err := migrator(ctx, conn, schema)
	if err != nil {
		return 0, 0, err
	}
	if from, err = m.GetCurrentVersion(ctx); err != nil {
		return 0, 0, fmt.Errorf("read version of schema %s: %w", schema, err)
	}
	if from >= Version {
		return from, from, nil
	}
	if err := m.Migrate(ctx); err != nil {
		return from, 0, fmt.Errorf("migrate schema %s: %w", schema, err)
	}
	return from, Version, nil
}

// Current answers the version of the schema in the database; 0 if there is none.
func Current(ctx context.Context, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, schema string) (int32, error) {
	var v int32
	err := db.QueryRow(ctx, "select version from "+versionTable(schema)).Scan(&v)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (pgErr.Code == "42P01" || pgErr.Code == "3F000") {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read version of schema %s: %w", schema, err)
	}
	return v, nil
}

// Script answers the SQL of all migrations after version from, as one text for
// teams that run their own tool.
func Script(ctx context.Context, schema string, from int32) (string, error) {
	m, err := migrator(ctx, nil, schema)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "create schema if not exists %s;\n", pgx.Identifier{schema}.Sanitize())
	fmt.Fprintf(&b, "create table if not exists %s (version int4 not null);\n", versionTable(schema))
	fmt.Fprintf(&b, "insert into %[1]s (version) select 0 where not exists (select from %[1]s);\n", versionTable(schema))
	for _, step := range m.Migrations {
		if step.Sequence > from {
			fmt.Fprintf(&b, "\n-- %s\nbegin;\n%s\nupdate %s set version = %d;\ncommit;\n",
				step.Name, step.UpSQL, versionTable(schema), step.Sequence)
		}
	}
	return b.String(), nil
}

// Names lists the migrations in order, the first being version 1.
func Names() []string {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	return names
}

func versionTable(schema string) string {
	return pgx.Identifier{schema, "schema_version"}.Sanitize()
}

func migrator(ctx context.Context, conn *pgx.Conn, schema string) (*migrate.Migrator, error) {
	m, err := migrate.NewMigrator(ctx, conn, versionTable(schema))
	if err != nil {
		return nil, fmt.Errorf("prepare migrations of schema %s: %w", schema, err)
	}
	m.Data = map[string]any{
		"schema":  pgx.Identifier{schema}.Sanitize(),
		"channel": quoteLiteral(Channel(schema)),
		"gate":    gate("inboxd " + schema),
		// The same for a lane, the second key being its number.
		"lane_gate": gate("inboxd lanes " + schema),
	}
	if err := m.LoadMigrations(files); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return m, nil
}

// gate is the first key of the schema's advisory locks; the second is 0 for the
// gate of segments, else the number of a process.
func gate(name string) int32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return int32(h.Sum32() & 0x7fffffff)
}

func quoteLiteral(s string) string {
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}
