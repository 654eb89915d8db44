package cloudevents_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/inbox"
)

// FuzzStructured looks for input that panics, that becomes an event which cannot
// be stored, or whose identity another one has.
func FuzzStructured(f *testing.F) {
	f.Fuzz(func(t *testing.T, value []byte, contentType string) {
		r := inbox.Record{Key: []byte("k"), Value: value, Headers: headers("content-type", contentType)}
		check(t, r, "")
	})
}

// FuzzBinary does the same for binary mode.
func FuzzBinary(f *testing.F) {
	f.Fuzz(func(t *testing.T, value []byte, id, source, sequence string) {
		r := inbox.Record{Key: []byte("k"), Value: value, Headers: headers(
			"ce_specversion", "1.0", "ce_id", id, "ce_source", source, "ce_type", "T", "ce_sequence", sequence)}
		check(t, r, string(value))
	})
}

func check(t *testing.T, r inbox.Record, payload string) {
	before := bytes.Clone(r.Value)
	d := decoder(t)
	known := d.Recognizes(r)
	ev, err := d.Decode(r)
	if !bytes.Equal(before, r.Value) {
		t.Fatal("the record was changed")
	}
	if err != nil {
		var refused *inbox.Refusal
		if !errors.As(err, &refused) || refused.Reason == "" || refused.Detail == "" {
			t.Fatalf("err = %v", err)
		}
		return
	}
	if !known {
		t.Fatal("what became an event was not recognized")
	}
	if err := ev.Validate(); err != nil {
		t.Fatal(err)
	}
	if payload != "" && string(ev.Payload) != payload {
		t.Fatal("the payload was changed")
	}
	var id, source string
	for _, h := range ev.Headers {
		switch h.Name {
		case "ce_id":
			id = string(h.Value)
		case "ce_source":
			source = string(h.Value)
		}
	}
	if !strings.HasPrefix(ev.ID, "[") && ev.ID != source+" "+id {
		t.Fatalf("id %q of source %q and id %q", ev.ID, source, id)
	}
}
