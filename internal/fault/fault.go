// Package fault says once, for everybody, whose fault an error of PostgreSQL
// is: the event's, the connection's, or nobody's.
package fault

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Class is whose fault an error is.
type Class int

// The classes.
const (
	// Event: running the same thing again gives the same error, as far as the
	// database can tell: a constraint, a division by zero, bad JSON.
	Event Class = iota
	// Outage: the server is away, restarting, read-only, full or out of
	// connections, or the connection was lost. It passes, whatever the event.
	Outage
	// Conflict: two transactions met; run it again and it will do.
	Conflict
	// Moved: a lane was not as it had been read: somebody else ran it, or an
	// operator wants it changed.
	Moved
)

// SQLSTATEs raised by the functions of the schema.
const (
	laneMoved          = "IBX01"
	laneMovedUnderLock = "IBX02"
	changeFirst        = "IBX04"
)

// Of classes an error. Errors that are not of PostgreSQL or of the network are
// the event's, a handler's own time-out included.
func Of(err error) Class {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return ofState(pgErr.Code)
	}
	if IsConnection(err) {
		return Outage
	}
	return Event
}

// State is the error's SQLSTATE, or "" if it is not of PostgreSQL.
func State(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

func ofState(code string) Class {
	switch code {
	case laneMoved, laneMovedUnderLock, changeFirst:
		return Moved
	case "40001", // serialization_failure
		"40P01", // deadlock_detected
		"55P03": // lock_not_available
		return Conflict
	case "25006", // read_only_sql_transaction: a standby, or a server being failed over
		"25P03", // idle_in_transaction_session_timeout
		"25P04", // transaction_timeout
		"57P01", // admin_shutdown
		"57P02", // crash_shutdown
		"57P03", // cannot_connect_now
		"57P05": // idle_session_timeout
		return Outage
	}
	switch {
	case strings.HasPrefix(code, "08"), // connection exceptions
		strings.HasPrefix(code, "53"), // insufficient resources: disk, memory, connections
		strings.HasPrefix(code, "58"): // system errors: I/O, missing files
		return Outage
	}
	return Event
}

// IsConnection reports that the error came from the connection rather than from
// a statement: the server could not be reached, or went away.
func IsConnection(err error) bool {
	var connectErr *pgconn.ConnectError
	var netErr net.Error
	switch {
	case err == nil:
		return false
	case errors.As(err, &connectErr):
		return true
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &netErr), errors.Is(err, net.ErrClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.Is(err, pgx.ErrTxClosed):
		return false
	}
	return pgconn.SafeToRetry(err) || strings.Contains(err.Error(), "conn closed")
}
