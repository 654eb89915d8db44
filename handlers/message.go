package handlers

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/inboxd/inboxd/inbox"
)

// Message is one event on its way to a handler, payload undecoded. A Message is
// read by every attempt of its event: nobody may change it. Middleware that
// wants the handler to see something else puts a changed copy into Call.Events.
type Message struct {
	inbox.Event
	// Attempt counts from 1 within the event's present run of attempts.
	Attempt int
	// Replay says that an operator ordered the lane to run again from an
	// earlier event: the handler has seen this event before.
	Replay bool
}

// Header gives the value of a header, the last one if its name repeats, or ""
// if there is none. Names are compared letter by letter, case included. Headers
// has all of them, in order, as they came.
func (m *Message) Header(name string) string {
	for i := len(m.Headers) - 1; i >= 0; i-- {
		if m.Headers[i].Name == name {
			return string(m.Headers[i].Value)
		}
	}
	return ""
}

// IdempotencyKey is a key for one call to the outside, such as an HTTP header
// Idempotency-Key: the same for every attempt of the event, in every process,
// and for a replay as well, and never that of another event. A handler that makes
// several calls, or that shares an API account with other consumers of the same
// events, says which call it is:
//
//	e.IdempotencyKey("billing", "charge")
//
// To have a replay call again, add something that tells the replays apart.
//
// The key is the event's id, then the purposes, joined by colons. Where that
// would be ambiguous, longer than 200 bytes or unfit for an HTTP header, it is a
// hash of them, "sha256-" and 64 hexadecimal digits.
func (m *Message) IdempotencyKey(purpose ...string) string {
	plain := plainKey(m.ID) && !strings.HasPrefix(m.ID, hashedKey)
	size := len(m.ID)
	for _, p := range purpose {
		plain = plain && plainKey(p)
		size += 1 + len(p)
	}
	if plain && size <= 200 {
		return strings.Join(append([]string{m.ID}, purpose...), ":")
	}
	h := sha256.New()
	for _, part := range append([]string{m.ID}, purpose...) {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part)) // the length keeps parts apart
	}
	return hashedKey + hex.EncodeToString(h.Sum(nil))
}

const hashedKey = "sha256-"

// plainKey reports whether the text can stand in a key as it is: visible ASCII,
// neither a colon nor what HTTP headers give a meaning to.
func plainKey(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte(`:,;"\`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// TraceParent is the trace context that the producer sent along, as W3C Trace
// Context writes it, from the header traceparent, or ce_traceparent for
// CloudEvents. "" if there is none or it is malformed.
func (m *Message) TraceParent() string {
	for _, name := range []string{"traceparent", "ce_traceparent"} {
		if v := strings.TrimSpace(m.Header(name)); isTraceParent(v) {
			return v
		}
	}
	return ""
}

// TraceState is the tracing systems' own part of the trace context, from the
// headers tracestate or ce_tracestate; several are joined. "" without a
// TraceParent, for it means nothing alone.
func (m *Message) TraceState() string {
	if m.TraceParent() == "" {
		return ""
	}
	var states []string
	for _, h := range m.Headers {
		if v := strings.TrimSpace(string(h.Value)); v != "" && (h.Name == "tracestate" || h.Name == "ce_tracestate") {
			states = append(states, v)
		}
	}
	return strings.Join(states, ",")
}

// isTraceParent checks version, trace id, parent id and flags: two, 32, 16 and
// two lower-case hexadecimal digits. Versions after 00 may say more behind them.
func isTraceParent(v string) bool {
	const size = 55
	if len(v) < size || v[2] != '-' || v[35] != '-' || v[52] != '-' {
		return false
	}
	version, trace, parent, flags := v[:2], v[3:35], v[36:52], v[53:55]
	for _, part := range []string{version, trace, parent, flags} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return false
		}
	}
	switch {
	case version == "ff", strings.Trim(trace, "0") == "", strings.Trim(parent, "0") == "":
		return false
	case version == "00":
		return len(v) == size
	}
	return len(v) == size || v[size] == '-'
}
