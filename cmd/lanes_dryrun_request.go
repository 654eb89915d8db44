package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/inboxd/inboxd/handlers"
)

// dryRunRequest is what a webhook would send, in JSON.
type dryRunRequest struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Size    int               `json:"body_size"`
	// Body is JSON as it is sent; what is none stands in Base64.
	Body   json.RawMessage `json:"body,omitempty"`
	Base64 *[]byte         `json:"body_base64,omitempty"`
}

func requestValue(r *handlers.Request) *dryRunRequest {
	if r == nil {
		return nil
	}
	v := &dryRunRequest{Method: r.Method, URL: r.URL, Headers: map[string]string{}, Size: len(r.Body)}
	for _, h := range r.Headers {
		v.Headers[h.Name] = h.Value
	}
	if utf8.Valid(r.Body) && json.Valid(r.Body) {
		v.Body = r.Body
	} else {
		body := append([]byte{}, r.Body...)
		v.Base64 = &body
	}
	return v
}

// writeRequest shows a request that was not sent.
func writeRequest(b *bytes.Buffer, r *handlers.Request) {
	section(b, "Request")
	fmt.Fprintf(b, "%s %s\n", r.Method, printable(r.URL))
	fields := make([]field, len(r.Headers))
	for i, h := range r.Headers {
		fields[i] = field{h.Name + ":", h.Value}
	}
	writeFields(b, fields)
	section(b, "Body, "+count(int64(len(r.Body)), "byte"))
	fmt.Fprintln(b, printableLines(jsonText(r.Body)))
}

// runsGo reports whether a dry run of the type runs a handler in Go, which may do
// anything.
func (a *app) runsGo(eventType string) bool {
	if !a.reg.Has(eventType) || a.reg.Ignores(eventType) {
		return false
	}
	for _, d := range a.reg.List() {
		if d.Type == eventType || slices.Contains(d.Aliases, eventType) {
			return !d.Request
		}
	}
	return true
}
