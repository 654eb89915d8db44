package ordering

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// schemaVersion is the version of the schema that this package works with: that of
// package migrations, which importers need not have.
const schemaVersion = 6

// SchemaError is returned by Run when the schema has no inboxd of the version that
// this program works with.
type SchemaError struct {
	// Schema is its name.
	Schema string
	// Found is its version; 0: there is none. Want is the program's.
	Found, Want int32
}

// Error says what is there and what to do.
func (e *SchemaError) Error() string {
	switch {
	case e.Found == 0:
		return fmt.Sprintf("the database has no schema %q of inboxd; make it with inboxd migrate up, or with migrations.Up", e.Schema)
	case e.Found < e.Want:
		return fmt.Sprintf("the schema %q is at version %d, older than version %d that this program works with; bring it up to date with inboxd migrate up, or with migrations.Up",
			e.Schema, e.Found, e.Want)
	}
	return fmt.Sprintf("the schema %q is at version %d, newer than version %d that this program works with; build the program with a newer inboxd",
		e.Schema, e.Found, e.Want)
}

// checkSchema compares the schema with what this package works with.
func (p *Processor) checkSchema(ctx context.Context) error {
	e := &SchemaError{Schema: p.cfg.Schema, Want: schemaVersion}
	err := p.pool.QueryRow(ctx, p.sql.schemaVersion).Scan(&e.Found)
	var refusal *pgconn.PgError
	switch {
	case errors.As(err, &refusal) && (refusal.Code == "42P01" || refusal.Code == "3F000"):
		return e
	case err != nil:
		return err
	case e.Found != e.Want:
		return e
	}
	return nil
}
