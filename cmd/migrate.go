package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	pgdatabase "github.com/inboxd/inboxd/internal/database"
	"github.com/inboxd/inboxd/migrations"
)

func newMigrateCmd(a *app) *cobra.Command {
	return noun("migrate", "Create and upgrade the schema", newMigrateUpCmd(a), newMigrateStatusCmd(a), newMigratePrintCmd(a), newMigrateRolesCmd(a))
}

// schemaStatus is what is known of the schema.
type schemaStatus struct {
	Schema  string   `json:"schema"`
	Version int32    `json:"version"` // 0: there is no schema
	Wanted  int32    `json:"wanted"`  // by this program
	Status  string   `json:"status"`  // missing, older, current or newer
	Pending []string `json:"pending"` // files to be applied, in order
}

func newMigrateUpCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Bring the schema to the version that this program works with",
		Long: "Create the schema or bring it to the version that this program works with.\n" +
			"A second migrator waits for the first; each file is a transaction of its own.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.migrateUp(cmd.Context()) },
	}
}

func (a *app) migrateUp(ctx context.Context) error {
	db, err := a.dialDatabase(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	from, to, err := a.applyMigrations(ctx, db)
	if err != nil {
		return migrationFailure(err)
	}
	text := "schema %[1]s is at version %[3]d already, nothing to do\n"
	switch {
	case to > migrations.Version:
		return schemaFailure(db.schema, to)
	case from == 0:
		text = "schema %[1]s created at version %[3]d\n"
	case from < to:
		text = "schema %[1]s brought from version %[2]d to version %[3]d\n"
	}
	_, err = fmt.Fprintf(a.stdout, text, db.schema, from, to)
	return wroteStdout(err)
}

// applyMigrations says when it has to wait for another migrator.
func (a *app) applyMigrations(ctx context.Context, db *database) (from, to int32, err error) {
	conn, err := pgdatabase.Connect(ctx, db.config.Database.Direct())
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if db.config.Database.DirectURL == "" && pgdatabase.Behind(conn.PgConn()) {
		return 0, 0, refused("a connection pooler stands before the server, and a migration needs a session of its own: it takes a lock in it").
			withHint(directHint)
	}
	waiting := time.AfterFunc(3*time.Second, func() { a.log.Info("still migrating, or waiting for another migrator") })
	defer waiting.Stop()
	return migrations.Up(ctx, conn, db.schema)
}

func migrationFailure(err error) error {
	var encoding *migrations.EncodingError
	if errors.As(err, &encoding) {
		return failed("%w", err).withHint("create another one: create database %s_utf8 encoding 'UTF8' template template0", encoding.Database)
	}
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == "42501" { // insufficient_privilege
		return failed("the user of database.url may not migrate: %w", err).
			withHint("log in as the role that owns the schema (see inboxd migrate roles), or run what inboxd migrate print shows as another user")
	}
	return databaseFailure(err)
}

func newMigrateStatusCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the version of the schema, and what is to be applied",
		Args:  exactArgs(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.migrateStatus(cmd.Context()) },
	}
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) migrateStatus(ctx context.Context) error {
	db, err := a.dialDatabase(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	version, err := migrations.Current(ctx, db.pool, db.schema)
	if err != nil {
		return databaseFailure(err)
	}
	st := schemaStatus{Schema: db.schema, Version: version, Wanted: migrations.Version, Status: "current", Pending: []string{}}
	switch {
	case version == 0:
		st.Status = "missing"
	case version < migrations.Version:
		st.Status = "older"
	case version > migrations.Version:
		st.Status = "newer"
	}
	if names := migrations.Names(); int(version) < len(names) {
		st.Pending = names[version:]
	}
	return a.show(st, []field{
		{"schema", st.Schema}, {"version", st.Version}, {"wanted", st.Wanted}, {"status", st.Status}, {"pending", st.Pending},
	}, nil)
}

func newMigratePrintCmd(a *app) *cobra.Command {
	var from int32
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the SQL, for teams that run their own tool",
		Long: "Print the SQL of the migrations for teams that run their own tool, each with its own\n" +
			"transaction and the record of its version. No database is needed.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config()
			if err != nil {
				return err
			}
			if from < 0 || from > migrations.Version {
				return wrongUse("--from is %d, but versions go from 0 to %d", from, migrations.Version)
			}
			script, err := migrations.Script(cmd.Context(), c.Database.Schema, from)
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.stdout, script)
			return wroteStdout(err)
		},
	}
	cmd.Flags().Int32Var(&from, "from", 0, "leave out the migrations up to `VERSION`, which the schema has")
	return cmd
}
