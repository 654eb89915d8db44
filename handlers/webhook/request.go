package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/secret"
)

const (
	authorization  = "Authorization"
	idempotencyKey = "Idempotency-Key"
	prefix         = "Inboxd-" // of the headers that tell of the event
)

// ours are the headers that a configuration cannot set, besides those with our
// prefix.
var ours = []string{
	idempotencyKey, "X-Idempotency-Key", "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Host",
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Upgrade", "Expect", "Traceparent", "Tracestate",
	"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature",
}

// CheckHeader says why a header cannot be sent along with each request: it is
// malformed, one of those that requests have anyway, or by its name a secret, which
// belongs into Token. Nil: it can be.
func CheckHeader(name, value string) error {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !isToken(name):
		return fmt.Errorf("%q is no name of a header", name)
	case slices.Contains(ours, canonical) || strings.HasPrefix(canonical, prefix):
		return fmt.Errorf("the header %s is set by inboxd", canonical)
	case !isHeaderValue(value):
		return fmt.Errorf("the value of header %s holds something that HTTP cannot carry", canonical)
	case value != "" && secret.Named(name):
		return fmt.Errorf("the header %s looks like a secret", canonical)
	}
	return nil
}

// headers are those of a request for the event, secrets aside.
func (h *Hook) headers(m *handlers.Message, body []byte) http.Header {
	header := http.Header{}
	for name, value := range h.cfg.Headers {
		header.Set(name, value)
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", h.cfg.UserAgent)
	}
	header.Set("Content-Type", contentType(m, body))
	header.Set(idempotencyKey, m.IdempotencyKey())
	header.Set(prefix+"Event-Id", encode(m.ID))
	header.Set(prefix+"Event-Type", encode(m.Type))
	header.Set(prefix+"Aggregate-Id", encode(m.AggregateID))
	header.Set(prefix+"Position", strconv.FormatInt(m.Position, 10))
	header.Set(prefix+"Attempt", strconv.Itoa(m.Attempt))
	header.Set(prefix+"Replay", strconv.FormatBool(m.Replay))
	for name, at := range map[string]time.Time{"Occurred-At": m.OccurredAt, "Received-At": m.ReceivedAt} {
		if !at.IsZero() {
			header.Set(prefix+name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if parent := m.TraceParent(); isHeaderValue(parent) && parent != "" {
		header.Set("Traceparent", parent)
		if state := m.TraceState(); isHeaderValue(state) && state != "" {
			header.Set("Tracestate", state)
		}
	}
	return header
}

// contentType is what the producer said, or what the body looks like.
func contentType(m *handlers.Message, body []byte) string {
	for _, h := range slices.Backward(m.Headers) {
		if value := strings.TrimSpace(string(h.Value)); strings.EqualFold(h.Name, "content-type") && value != "" && isHeaderValue(value) {
			return value
		}
	}
	if json.Valid(body) {
		return "application/json"
	}
	return "application/octet-stream"
}

// prepare makes the request for an event, headers and body complete.
func (h *Hook) prepare(ctx context.Context, m *handlers.Message, body []byte, s secrets) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("webhook %s: %w", h.shown, err)
	}
	req.Header = h.headers(m, body)
	s.add(req.Header, h.cfg.TokenHeader, m.IdempotencyKey(), time.Now(), body)
	return req, nil
}

// request is what a dry run shows: the same request with its secrets hidden. It
// reads none of them.
func (h *Hook) request(ctx context.Context, e handlers.Event[[]byte]) (handlers.Request, error) {
	req, err := h.prepare(ctx, &e.Message, e.Data, h.hidden())
	if err != nil {
		return handlers.Request{}, err
	}
	shown := handlers.Request{Method: req.Method, URL: secret.URL(h.url), Body: e.Data}
	for name, values := range req.Header {
		shown.Headers = append(shown.Headers, handlers.RequestHeader{Name: name, Value: strings.Join(values, ", ")})
	}
	sort.Slice(shown.Headers, func(i, j int) bool { return shown.Headers[i].Name < shown.Headers[j].Name })
	return shown, nil
}

// encode makes any text fit for a header, as the HTTP binding of CloudEvents does.
func encode(s string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '%' {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// isHeaderValue reports whether HTTP carries the text as it is, whatever stands
// in between: visible ASCII and single spaces within.
func isHeaderValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return strings.TrimSpace(s) == s
}

// isToken reports whether the text can be a header's name.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
