package jsonformat_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/inboxd/inboxd/inbox"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

// FuzzDecode looks for input that panics, that becomes an event which cannot be
// stored, or whose fields differ from what encoding/json reads.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"e","order":{"id":1},"items":[0,{"type":"T"}],"version":3}`), []byte("k"), []byte("h"))
	f.Fuzz(func(t *testing.T, value, key, header []byte) {
		rules := fields()
		rules.EventID = []string{"$.id", "$.order.id"}
		d := decoder(t, jsonformat.Config{Format: jsonformat.JSON, Fields: rules})
		r := inbox.Record{Key: key, Value: value, Headers: []inbox.Header{{Name: "type", Value: header}}}
		ev, err := d.Decode(r)
		if err != nil {
			var refused *inbox.Refusal
			if !errors.As(err, &refused) || refused.Reason == "" || refused.Detail == "" {
				t.Fatalf("err = %v", err)
			}
			if (refused.Reason == "not-json") == (json.Valid(value) && value != nil) && value != nil {
				t.Fatalf("refused as %v", refused)
			}
			return
		}
		if err := ev.Validate(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ev.Payload, value) {
			t.Fatalf("payload changed")
		}
		if want, comparable := reference(value, "id"); comparable && want != "" && ev.ID != want {
			t.Fatalf("id %q, encoding/json reads %q", ev.ID, want)
		}
	})
}

// reference reads a top-level field with encoding/json, unless that replaces
// characters where we refuse.
func reference(value []byte, name string) (text string, comparable bool) {
	if !utf8.Valid(value) || strings.Contains(strings.ToLower(string(value)), `\ud`) {
		return "", false
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var doc map[string]any
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return "", false
	}
	switch v := doc[name].(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	default:
		return "", true
	}
}
