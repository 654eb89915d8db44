package cmd

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/migrations"
)

func newMigrateRolesCmd(a *app) *cobra.Command {
	var names migrations.RoleNames
	cmd := &cobra.Command{
		Use:   "roles",
		Short: "Print the SQL of the database roles, each with what it needs and no more",
		Long: "Print SQL that makes four roles and gives each what it needs and no more: one that owns the schema\n" +
			"and migrates, one for serve, one for operators, one that only looks. Nothing is executed, and no\n" +
			"database is needed:\n\n" +
			"  inboxd migrate up && inboxd migrate roles | psql …\n\n" +
			"Run it again after each later migrate up: what a new table needs is in the SQL of its version.\n" +
			"inboxd doctor says whether the role of database.url has what it needs.",
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error { return a.printRoles(names) },
	}
	for _, f := range []struct {
		to        *string
		name, use string
	}{
		{&names.Migrator, "migrator", "owns the schema and migrates"},
		{&names.Runtime, "runtime", "serves"},
		{&names.Operator, "operator", "changes lanes"},
		{&names.Reader, "reader", "looks"},
	} {
		cmd.Flags().StringVar(f.to, f.name, "", "`NAME` of the role that "+f.use+" (default: the schema's, then _"+f.name+")")
	}
	return cmd
}

func (a *app) printRoles(names migrations.RoleNames) error {
	c, err := a.config()
	if err != nil {
		return err
	}
	usual := migrations.DefaultRoleNames(c.Database.Schema)
	script, err := migrations.RolesScript(c.Database.Schema, migrations.RoleNames{
		Migrator: firstOf(names.Migrator, usual.Migrator), Runtime: firstOf(names.Runtime, usual.Runtime),
		Operator: firstOf(names.Operator, usual.Operator), Reader: firstOf(names.Reader, usual.Reader),
	})
	if err != nil {
		return wrongUse("%w", err)
	}
	_, err = io.WriteString(a.stdout, script)
	return wroteStdout(err)
}
