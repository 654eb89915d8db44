package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// sqlParams are the names that a statement may use as @name.
var sqlParams = map[string]func(m *Message) (any, error){
	"event_id":      func(m *Message) (any, error) { return m.ID, nil },
	"aggregate_id":  func(m *Message) (any, error) { return m.AggregateID, nil },
	"event_type":    func(m *Message) (any, error) { return m.Type, nil },
	"position":      func(m *Message) (any, error) { return m.Position, nil },
	"received_at":   func(m *Message) (any, error) { return m.ReceivedAt, nil },
	"occurred_at":   func(m *Message) (any, error) { return m.OccurredAt, nil },
	"payload_bytes": func(m *Message) (any, error) { return nonNil(m.Payload), nil },
	"payload":       payloadText,
	"headers":       headersJSON,
}

func payloadText(m *Message) (any, error) {
	switch {
	case !utf8.Valid(m.Payload):
		return nil, Permanent(fmt.Errorf("the payload of %s is no text (invalid UTF-8), and the statement uses @payload; use @payload_bytes for bytes", m.Type))
	case strings.IndexByte(string(m.Payload), 0) >= 0:
		return nil, Permanent(fmt.Errorf("the payload of %s is no text (it holds a NUL byte), and the statement uses @payload; use @payload_bytes for bytes", m.Type))
	}
	return string(m.Payload), nil
}

func headersJSON(m *Message) (any, error) {
	b, err := json.Marshal(inbox.HeaderObject(m.Headers))
	return string(b), err
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

type sqlStatement struct {
	sql    string
	params []func(m *Message) (any, error)
}

// SQL registers statements as the handler of an event type. They run in order
// in the lane's transaction; rows that they return are dropped. They may use
// @event_id, @aggregate_id, @event_type, @payload (text), @payload_bytes,
// @headers (a JSON object), @position, @received_at and @occurred_at. A value is
// always a parameter, never part of the statement's text.
//
// An error says what is wrong with the statements; whether the database accepts
// them shows when they run.
func SQL(r *Registry, eventType string, statements ...string) error {
	return SQLWith(r, eventType, statements)
}

// SQLWith is SQL with options. An option that does not fit is an error too.
func SQLWith(r *Registry, eventType string, statements []string, opts ...Option) error {
	parsed := make([]sqlStatement, len(statements))
	for i, text := range statements {
		statement, err := parseSQL(text)
		if err != nil {
			return fmt.Errorf("statement %d of the sql handler of %s: %w", i+1, eventType, err)
		}
		parsed[i] = statement
	}
	if len(parsed) == 0 {
		return fmt.Errorf("the sql handler of %s has no statement; to pass over a type, ignore it", eventType)
	}
	e := newEntry[[]byte](eventType, Queued)
	e.statements = slices.Clone(statements)
	e.handler = func(_ context.Context, call *Call) error { return queueSQL(e.payload, parsed, call) }
	return r.tryAdd(e, opts)
}

func queueSQL(p *payload, statements []sqlStatement, call *Call) error {
	m, err := p.raw(call.Events[0])
	if err != nil {
		return err
	}
	for _, s := range statements {
		args := make([]any, len(s.params))
		for i, param := range s.params {
			if args[i], err = param(m); err != nil {
				return err
			}
		}
		call.Batch.Queue(s.sql, args...)
	}
	return nil
}

// ordinal matches a parameter after rewriting.
var ordinal = regexp.MustCompile(`\$([0-9]+)`)

// sqlTypes are the parameters that have a type of their own; the type of the
// others is what the statement makes of them.
var sqlTypes = map[string]string{
	"position":      "bigint",
	"received_at":   "timestamptz",
	"occurred_at":   "timestamptz",
	"payload_bytes": "bytea",
	"headers":       "jsonb",
}

// parseSQL has pgx rewrite the @names, with each name as its own value, so that
// the answer says which name stands where.
func parseSQL(text string) (sqlStatement, error) {
	text = strings.TrimRight(text, "; \r\n\t")
	if strings.TrimSpace(text) == "" {
		return sqlStatement{}, errors.New("it is empty")
	}
	if found := ordinal.FindString(text); found != "" {
		return sqlStatement{}, fmt.Errorf("it holds %s; parameters are named, it may use %s", found, paramNames())
	}
	names := pgx.NamedArgs{}
	for name := range sqlParams {
		names[name] = name
	}
	sql, used, err := names.RewriteQuery(context.Background(), nil, text, nil)
	if err != nil {
		return sqlStatement{}, err
	}
	s := sqlStatement{params: make([]func(*Message) (any, error), len(used))}
	for i, value := range used {
		name, known := value.(string)
		if !known {
			_, _, err := pgx.StrictNamedArgs(names).RewriteQuery(context.Background(), nil, text, nil)
			return sqlStatement{}, fmt.Errorf("%w; it may use %s", err, paramNames())
		}
		s.params[i] = sqlParams[name]
	}
	s.sql = ordinal.ReplaceAllStringFunc(sql, func(p string) string {
		n, _ := strconv.Atoi(p[1:])
		if t, ok := sqlTypes[used[n-1].(string)]; ok {
			return "(" + p + "::" + t + ")"
		}
		return p
	})
	return s, nil
}

func paramNames() string {
	names := make([]string, 0, len(sqlParams))
	for name := range sqlParams {
		names = append(names, "@"+name)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}
