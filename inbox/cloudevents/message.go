package cloudevents

import (
	"strings"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/rawjson"
)

// message is a CloudEvent in binary mode.
type message struct {
	// lookup are the headers that rules look into, attributes with Prefix.
	lookup []inbox.Header
	// headers are those of the event.
	headers []inbox.Header
	// data is nil if there is none.
	data []byte

	id, source, eventType string // filled in by check
}

// springTypes is a header that names those which Spring wrote as JSON.
const springTypes = "spring_json_header_types"

// fromHeaders reads a record in binary mode.
func fromHeaders(r *inbox.Record) *message {
	m := &message{lookup: r.Headers, headers: r.Headers, data: r.Value}
	prefix, spring := prefixOf(r.Headers), last(r.Headers, springTypes) != ""
	if prefix == Prefix && !spring {
		return m
	}
	m.lookup = make([]inbox.Header, len(r.Headers))
	for i, h := range r.Headers {
		if name, ok := strings.CutPrefix(h.Name, prefix); ok {
			h.Name = Prefix + name
			if spring {
				h.Value = unquoted(h.Value)
			}
		}
		m.lookup[i] = h
	}
	return m
}

// prefixOf is what the names of attributes begin with in a record's headers, ""
// if there are none.
func prefixOf(headers []inbox.Header) string {
	for _, prefix := range []string{Prefix, "ce-", "cloudEvents:"} {
		for i := range headers {
			if rest, ok := strings.CutPrefix(headers[i].Name, prefix); ok && rest == "specversion" {
				return prefix
			}
		}
	}
	return ""
}

// unquoted is the text of a JSON string, and any other value as it is.
func unquoted(b []byte) []byte {
	if len(b) < 2 || b[0] != '"' {
		return b
	}
	v, ok := rawjson.Valid(b)
	if !ok {
		return b
	}
	text, ok := v.Text()
	if !ok {
		return b
	}
	return []byte(text)
}

// last is the value of the last header of a name, "" if there is none.
func last(headers []inbox.Header, name string) string {
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Name == name {
			return string(headers[i].Value)
		}
	}
	return ""
}
