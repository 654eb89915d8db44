package jsonl_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/jsonl"
)

func decode(t *testing.T, line string) (inbox.Event, error) {
	t.Helper()
	return jsonl.NewDecoder().Decode(inbox.Record{Value: []byte(line)})
}

func TestALineBecomesAnEvent(t *testing.T) {
	t.Parallel()
	e, err := decode(t, `{"event_id":"e","aggregate_id":7,"event_type":true,"sequence":3,"occurred_at":"2026-01-02T03:04:05Z",`+
		`"payload" : {"a": 1.00,  "b":[ ] } ,"headers":{"z":"1","a":null,"n":2}}`)
	if err != nil {
		t.Fatal(err)
	}
	three := int64(3)
	want := inbox.Event{
		ID: "e", AggregateID: "7", Type: "true", Sequence: &three, Payload: []byte(`{"a": 1.00,  "b":[ ] }`),
		OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Headers:    []inbox.Header{{Name: "z", Value: []byte("1")}, {Name: "a"}, {Name: "n", Value: []byte("2")}},
	}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
}

func TestPayloadsStandAsTheyCame(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		`{"n":` + strings.Repeat("1234567890", 10) + `}`, `"a\u0000b\ud800"`, "\"\xff\"", `[ 1 ,2]`, "null", "1e999", `""`,
	} {
		e, err := decode(t, `{"event_id":"e","aggregate_id":"a","event_type":"t","payload":`+payload+`}`)
		if err != nil || string(e.Payload) != payload {
			t.Errorf("payload %q became %q (%v)", payload, e.Payload, err)
		}
	}
	e, err := decode(t, `{"event_id":"e","aggregate_id":"a","event_type":"t"}`)
	if err != nil || len(e.Payload) != 0 {
		t.Errorf("no payload became %q (%v)", e.Payload, err)
	}
	e, err = decode(t, `{"event_id":"e","aggregate_id":"a","event_type":"t","payload":1,"payl\u006fad":2}`)
	if err != nil || string(e.Payload) != "2" {
		t.Errorf("of two payloads %q counts (%v)", e.Payload, err)
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	pair := func(name, value string) inbox.Header { return inbox.Header{Name: name, Value: []byte(value)} }
	for headers, want := range map[string][]inbox.Header{
		`null`:                           nil,
		`{}`:                             nil,
		`[]`:                             {},
		`{"b":"1","a":"2","b":"3"}`:      {pair("b", "1"), pair("a", "2"), pair("b", "3")},
		`[["a","1"],["a","2"]]`:          {pair("a", "1"), pair("a", "2")},
		`[["a",{"base64":"AAE="}]]`:      {pair("a", "\x00\x01")},
		` {"text": "\u00fc", "t":true} `: {pair("text", "ü"), pair("t", "true")},
	} {
		e, err := decode(t, `{"event_id":"e","aggregate_id":"a","event_type":"t","headers":`+headers+`}`)
		if err != nil || !reflect.DeepEqual(e.Headers, want) {
			t.Errorf("%s became %v, want %v (%v)", headers, e.Headers, want, err)
		}
	}
}

func TestLinesThatAreRefused(t *testing.T) {
	t.Parallel()
	const rest = `,"aggregate_id":"a","event_type":"t"`
	for line, reason := range map[string]string{
		``:                                     "not-json",
		`x`:                                    "not-json",
		`{"event_id":"e"` + rest + `} x`:       "not-json",
		"{\"event_id\":\"a\x00\"" + rest + "}": "not-json",
		`[1]`:                                  "not-an-object",
		`"text"`:                               "not-an-object",
		`null`:                                 "not-an-object",
		`{"event_id":""` + rest + `}`:          "no-event-id",
		`{"aggregate_id":"a"}`:                 "no-event-id",
		`{"event_id":"e"}`:                     "no-aggregate-id",
		`{"event_id":"e","aggregate_id":"a"}`:  "no-event-type",
		`{"event_id":[1]` + rest + `}`:         "bad-event-id",
		`{"event_id":"a\u0000b"` + rest + `}`:  "bad-event-id",
		`{"event_id":"\ud800"` + rest + `}`:    "bad-event-id",
		"{\"event_id\":\"\xff\"" + rest + "}":  "bad-event-id",
		`{"event_id":"e","sequence":1.5` + rest + `}`:     "bad-sequence",
		`{"event_id":"e","occurred_at":"x"` + rest + `}`:  "bad-occurred-at",
		`{"event_id":"e","headers":"x"` + rest + `}`:      "bad-headers",
		`{"event_id":"e","headers":[["a"]]` + rest + `}`:  "bad-headers",
		`{"event_id":"e","headers":["ab"]` + rest + `}`:   "bad-headers",
		`{"event_id":"e","headers":{"a":[]}` + rest + `}`: "bad-headers",
	} {
		_, err := decode(t, line)
		var refusal *inbox.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != reason {
			t.Errorf("%q: %v, want %s", line, err, reason)
		}
	}
}

func TestUnknownKeysAreRemembered(t *testing.T) {
	t.Parallel()
	d := jsonl.NewDecoder()
	for _, line := range []string{
		`{"event_id":"e","aggregate_id":"a","event_type":"t","Payload":1,"x":2}`,
		`{"event_id":"e","aggregate_id":"a","event_type":"t","x":2,"eventId":1}`,
		`{"refused":1}`,
	} {
		_, _ = d.Decode(inbox.Record{Value: []byte(line)})
	}
	if got, want := d.Unknown(), []string{"Payload", "eventId", "x"}; !reflect.DeepEqual(got, want) {
		t.Errorf("unknown keys %v, want %v", got, want)
	}
}

// readAll reads lines, and notes in their place those that were too long.
func readAll(t *testing.T, r *jsonl.Reader) (lines []string) {
	t.Helper()
	for {
		record, err := r.Next()
		var long *jsonl.TooLongError
		switch {
		case errors.Is(err, io.EOF):
			return lines
		case errors.As(err, &long):
			lines = append(lines, long.Error())
		case err != nil:
			t.Fatal(err)
		default:
			lines = append(lines, string(record.Value))
		}
	}
}

func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300<<10)
	for input, want := range map[string][]string{
		"":                           nil,
		"\n \n\t\r\n":                nil,
		"a":                          {"a"},
		"a\nb\n":                     {"a", "b"},
		"\xef\xbb\xbfa\r\n\n\xef\n":  {"a\r", "\xef"},
		"\x00\n":                     {"\x00"},
		long + "\n" + long:           {long, long},
		long + "y\na\n":              {"line 1 has 307201 bytes, more than the 67108864 that one event can have", "a"},
		"a\n" + long + "yy":          {"a", "line 2 has 307202 bytes, more than the 67108864 that one event can have"},
		long + long + long + "\nb\n": {"line 1 has 921600 bytes, more than the 67108864 that one event can have", "b"},
	} {
		for _, in := range []io.Reader{strings.NewReader(input), iotest.OneByteReader(strings.NewReader(input))} {
			r := jsonl.NewReader(in)
			r.SetMax(len(long))
			if got := readAll(t, r); !reflect.DeepEqual(got, want) {
				t.Errorf("%.20q…: %d lines, want %d: %.200q", input, len(got), len(want), got)
			}
		}
	}
}

func TestReaderPassesErrorsOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := jsonl.NewReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	if _, err := r.Next(); err != nil || r.Line() != 1 {
		t.Fatalf("line %d: %v", r.Line(), err)
	}
	if _, err := r.Next(); !errors.Is(err, broken) {
		t.Errorf("got %v, want the error of the input", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		`{"event_id":"e","aggregate_id":"a","event_type":"t","payload":{"n":1.00}}`,
		`{"event_id":1,"aggregate_id":true,"event_type":"t","headers":{"a":"b"},"sequence":3}`,
		`{"event_id":"e","aggregate_id":"a","event_type":"t","headers":[["a",{"base64":"AA=="}]],"occurred_at":1}`,
		`{"event_id":"\ud800","aggregate_id":"a","event_type":"t"}`, "\x00", `[{}]`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		e, err := jsonl.NewDecoder().Decode(inbox.Record{Value: line})
		if !bytes.Equal(line, before) {
			t.Error("the line was changed")
		}
		var refusal *inbox.Refusal
		switch {
		case err != nil && !errors.As(err, &refusal):
			t.Errorf("an error that is no refusal: %v", err)
		case err == nil && e.Validate() != nil:
			t.Errorf("an event that cannot be stored: %v", e.Validate())
		case err == nil && !bytes.Contains(line, e.Payload):
			t.Errorf("payload %q does not stand in the line", e.Payload)
		}
		if err == nil {
			if _, err := inbox.EncodeHeaders(e.Headers); err != nil {
				t.Errorf("headers that cannot be stored: %v", err)
			}
		}
	})
}
