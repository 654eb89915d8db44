package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/fault"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitWrongUse    = 2
	exitNotFound    = 3
	exitRefused     = 4
	exitUnreachable = 5
	exitInPart      = 6
)

// exitError is a failure with the code to exit with and, if there is something
// to do about it, a hint that says what.
type exitError struct {
	code int
	err  error
	hint string
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// withHint says what to do about the failure, as one sentence or a command.
func (e *exitError) withHint(format string, args ...any) *exitError {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

// The helpers make an exitError as fmt.Errorf makes an error, %w included.

func failed(format string, args ...any) *exitError   { return exitWith(exitFailed, format, args) }
func wrongUse(format string, args ...any) *exitError { return exitWith(exitWrongUse, format, args) }
func notFound(format string, args ...any) *exitError { return exitWith(exitNotFound, format, args) }
func refused(format string, args ...any) *exitError  { return exitWith(exitRefused, format, args) }
func unreachable(format string, args ...any) *exitError {
	return exitWith(exitUnreachable, format, args)
}
func doneInPart(format string, args ...any) *exitError { return exitWith(exitInPart, format, args) }

func exitWith(code int, format string, args []any) *exitError {
	return &exitError{code: code, err: fmt.Errorf(format, args...)}
}

// classify finds the code for an error that a command returned; ctx is the one
// that it ran in.
func classify(ctx context.Context, err error) *exitError {
	var (
		known     *exitError
		configErr *config.Error
	)
	switch {
	case errors.As(err, &known):
		return &exitError{code: known.code, err: err, hint: known.hint}
	case errors.As(err, &configErr):
		return configFailure(configErr)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return failed("interrupted before it was done")
	case fault.Of(err) == fault.Outage:
		return &exitError{code: exitUnreachable, err: err, hint: databaseHint(err)}
	default:
		return &exitError{code: exitFailed, err: err}
	}
}

func configFailure(err *config.Error) *exitError {
	e := wrongUse("%w", err)
	if n := len(err.Problems); n > 1 {
		e = wrongUse("the configuration has %d problems:\n%w", n, err)
	}
	return e.withHint("correct it, then check it with: inboxd config validate")
}

// databaseHint says what to look at when the database cannot be used.
func databaseHint(err error) string {
	state := fault.State(err)
	switch state {
	case "28P01", "28000":
		return "check the user and the password in database.url, or in PGUSER and PGPASSWORD"
	case "3D000":
		return "create that database, or name another one in database.url"
	}
	var connectErr *pgconn.ConnectError
	switch {
	case errors.As(err, &connectErr):
		return "check that PostgreSQL runs there and that database.url is right: inboxd config print shows it"
	case state != "":
		return "try again when PostgreSQL is back"
	default:
		return ""
	}
}

// report writes a failure for a person or, in one of the JSON formats, for a
// program.
func report(w io.Writer, f format, e *exitError) {
	if f == formatTable {
		text := "inboxd: " + printableLines(e.Error()) + "\n"
		if e.hint != "" {
			text += "hint: " + printableLines(e.hint) + "\n"
		}
		_, _ = io.WriteString(w, text) // stderr is the last resort
		return
	}
	type failure struct {
		Message string  `json:"message"`
		Hint    *string `json:"hint"`
	}
	body := failure{Message: e.Error()}
	if e.hint != "" {
		body.Hint = &e.hint
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(map[string]failure{"error": body})
}

// printableLines is printable for a text that may have several lines.
func printableLines(s string) string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n")
	for i, line := range lines {
		lines[i] = printable(strings.ReplaceAll(line, "\t", "  "))
	}
	return strings.Join(lines, "\n")
}
