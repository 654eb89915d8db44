package migrations

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// EncodingError is returned by Up when the database does not keep text as UTF-8:
// names of aggregates and types could neither be stored nor compared as they came.
type EncodingError struct {
	Database string
	Encoding string // as the server calls it
}

// Error says which encoding the database has.
func (e *EncodingError) Error() string {
	return fmt.Sprintf("the database %q has the encoding %s, and inboxd needs UTF8", e.Database, e.Encoding)
}

// prepare looks at the database and creates the schema if there is none. It does
// not ask for a schema that is there: that would take the right to create one.
func prepare(ctx context.Context, conn *pgx.Conn, schema string) error {
	const look = `select current_database(), current_setting('server_encoding'),
	exists (select from pg_namespace where nspname = $1)`
	var wrong EncodingError
	var there bool
	if err := conn.QueryRow(ctx, look, schema).Scan(&wrong.Database, &wrong.Encoding, &there); err != nil {
		return fmt.Errorf("look at the database: %w", err)
	}
	if wrong.Encoding != "UTF8" {
		return &wrong
	}
	if there {
		return nil
	}
	if _, err := conn.Exec(ctx, "create schema if not exists "+pgx.Identifier{schema}.Sanitize()); err != nil {
		return fmt.Errorf("create schema %s: %w", schema, err)
	}
	return nil
}
