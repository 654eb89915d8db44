package inbox_test

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/inboxd/inboxd/inbox"
)

var headerLists = map[string][]inbox.Header{
	"none":               nil,
	"text":               {{Name: "type", Value: []byte("OrderPaid")}},
	"repeated names":     {{Name: "n", Value: []byte("2")}, {Name: "n", Value: []byte("1")}, {Name: "m"}, {Name: "n", Value: []byte("2")}},
	"nil and empty":      {{Name: "nil"}, {Name: "empty", Value: []byte{}}, {Name: ""}},
	"binary value":       {{Name: "b", Value: []byte{0, 1, 0xff, 0xfe}}, {Name: "nul", Value: []byte("a\x00")}},
	"binary name":        {{Name: "\x00\xff", Value: []byte("v")}},
	"surrogate":          {{Name: "s", Value: []byte("\xed\xa0\x80")}},
	"escapes":            {{Name: `"\`, Value: []byte("\u0001\u2028</script>\\u0000\"")}},
	"looks like base64":  {{Name: `{"base64":"AA=="}`, Value: []byte(`{"base64":"AA=="}`)}},
	"looks like null":    {{Name: "null", Value: []byte("null")}},
	"large":              {{Name: "l", Value: bytes.Repeat([]byte("x"), 1<<20)}},
	"beyond the BMP":     {{Name: "\U0001F600", Value: []byte("\U0010FFFF")}},
	"replacement itself": {{Name: "\uFFFD", Value: []byte("\uFFFD")}},
}

func TestHeadersAreKept(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for name, headers := range headerLists {
		e := event(name, "a")
		e.Headers = headers
		if got := s.put(e); got != "s" {
			t.Errorf("%s: outcome %q", name, got)
		}
		stored := one[[]byte](t, s.pool, `select headers from inboxd.inbox where event_id = $1`, name)
		got, err := inbox.DecodeHeaders(stored)
		if err != nil || !reflect.DeepEqual(got, headers) {
			t.Errorf("%s: came back as %q (%v) from %.200s", name, got, err, stored)
		}
	}
	if got := one[int](t, s.pool, `select count(*) from inboxd.inbox where headers is null`); got != 1 {
		t.Errorf("%d events have no headers, want 1", got)
	}
}

func TestHeaderObject(t *testing.T) {
	t.Parallel()
	got := inbox.HeaderObject([]inbox.Header{{Name: "n", Value: []byte("1")}, {Name: "n", Value: []byte("2")},
		{Name: "nil"}, {Name: "bin", Value: []byte{0xff}}, {Name: "\xff", Value: []byte("v")}})
	want := map[string]string{"n": "2", "nil": "", "bin": "/w==", "/w==": "v"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHeadersThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{"{", "{}", `["a"]`, `[["a"]]`, `[["a",1]]`, `[[{"base64":"?"},"v"]]`, `[["a",{"base64":1}]]`} {
		if got, err := inbox.DecodeHeaders([]byte(stored)); err == nil && stored != `[["a"]]` {
			t.Errorf("%s: decoded as %v", stored, got)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	for _, headers := range headerLists {
		for _, h := range headers {
			if len(h.Value) < 100 {
				f.Add(h.Name, h.Value, h.Value == nil)
			}
		}
	}
	f.Fuzz(func(t *testing.T, name string, value []byte, none bool) {
		switch {
		case none:
			value = nil
		case value == nil:
			value = []byte{}
		}
		headers := []inbox.Header{{Name: name, Value: value}, {Name: "again", Value: value}, {Name: name}}
		stored, err := inbox.EncodeHeaders(headers)
		if err != nil {
			t.Fatalf("encode %q: %v", headers, err)
		}
		got, err := inbox.DecodeHeaders(stored)
		if err != nil || !slices.EqualFunc(got, headers, func(a, b inbox.Header) bool { return reflect.DeepEqual(a, b) }) {
			t.Fatalf("%q came back as %q, %v", headers, got, err)
		}
	})
}
