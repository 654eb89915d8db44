package inbox

import (
	"errors"
	"fmt"
	"strings"
)

// maxSchema is the longest name of a schema, in bytes: the channel that wakes
// lanes is the schema's name and "_wake", and PostgreSQL has 63 bytes for it.
const maxSchema = 63 - len("_wake")

func checkSchema(schema string) error {
	switch {
	case len(schema) > maxSchema:
		return fmt.Errorf("the schema %q has %d bytes, but must have at most %d", schema, len(schema), maxSchema)
	case strings.HasPrefix(strings.ToLower(schema), "pg_"):
		return fmt.Errorf("the schema cannot be %q: PostgreSQL keeps names that begin with pg_ for itself", schema)
	}
	return checkName("schema", schema)
}

// unmigrated says of an error of the server what is behind it if the tables or
// functions that a Store uses are not there.
func (s *Store) unmigrated(err error) error {
	var state interface{ SQLState() string } // of pgx and lib/pq
	if err == nil || !errors.As(err, &state) {
		return err
	}
	switch state.SQLState() {
	case "3F000", "42P01", "42883": // no such schema, table, function
		return fmt.Errorf("is schema %q of this database migrated (inboxd migrate up)? %w", s.schema, err)
	}
	return err
}
