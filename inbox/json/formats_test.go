package jsonformat_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/inbox"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

func TestFormats(t *testing.T) {
	onlyOutside := inbox.Record{Key: []byte("a"), Headers: headers("id", "e", "type", "T")}
	for _, tt := range []struct {
		format, value string
		sequence      string // "", a number, or the reason of the refusal
	}{
		{jsonformat.JSON, `{"version":1}`, "1"},
		{jsonformat.JSON, `"text"`, ""},
		{jsonformat.JSON, ` [1] `, ""},
		{jsonformat.JSON, `12`, ""},
		{jsonformat.JSON, ``, "not-json"},
		{jsonformat.JSON, `{"version":1`, "not-json"},
		{jsonformat.JSON, `{"version":1} {}`, "not-json"},
		{jsonformat.JSON, "\x00\x01", "not-json"},
		{jsonformat.JSON, "\xef\xbb\xbf{}", "not-json"},
		{jsonformat.JSON, strings.Repeat("[", 100_000), "not-json"},
		{jsonformat.Raw, `{"version":1}`, ""},
		{jsonformat.Raw, "\x00\xff", ""},
		{jsonformat.Raw, ``, ""},
		{jsonformat.Auto, `{"version":1}`, "1"},
		{jsonformat.Auto, `{"version":1`, ""},
		{jsonformat.Auto, "\x00\xff", ""},
		{jsonformat.Auto, ``, ""},
		{"", `{"version":1}`, "1"},
	} {
		d := decoder(t, jsonformat.Config{Format: tt.format, Fields: fields()})
		r := onlyOutside
		r.Value = []byte(tt.value)
		ev, err := d.Decode(r)
		got := ""
		var refused *inbox.Refusal
		switch {
		case errors.As(err, &refused):
			got = refused.Reason
		case err != nil:
			t.Fatal(err)
		case string(ev.Payload) != tt.value:
			t.Errorf("%s %.20q: payload became %.20q", tt.format, tt.value, ev.Payload)
		case ev.Sequence != nil:
			got = "1"
		}
		if got != tt.sequence {
			t.Errorf("%s %.20q: %q, want %q", tt.format, tt.value, got, tt.sequence)
		}
	}
}

func TestTombstones(t *testing.T) {
	r := record("")
	r.Value = nil
	for _, format := range []string{jsonformat.JSON, jsonformat.Raw, jsonformat.Auto} {
		for _, tombstones := range []string{"", jsonformat.TombstoneQuarantine, jsonformat.TombstoneIgnore, jsonformat.TombstoneEvent} {
			ev, err := decoder(t, jsonformat.Config{Format: format, Fields: fields(), Tombstones: tombstones}).Decode(r)
			switch tombstones {
			case jsonformat.TombstoneIgnore:
				if !errors.Is(err, inbox.ErrIgnored) {
					t.Errorf("%s: err %v", format, err)
				}
			case jsonformat.TombstoneEvent:
				if err != nil || ev.ID != "e" || ev.Payload != nil {
					t.Errorf("%s: %+v, err %v", format, ev, err)
				}
			default:
				if refusal(t, err).Reason != "tombstone" {
					t.Errorf("%s: err %v", format, err)
				}
			}
		}
	}
}

// marked is a format for records that start with its mark.
type marked string

func (m marked) Recognizes(r inbox.Record) bool {
	return strings.HasPrefix(string(r.Value), string(m))
}

func (m marked) Decode(inbox.Record) (inbox.Event, error) { return inbox.Event{ID: string(m)}, nil }

func TestAutoAsksOtherFormatsFirst(t *testing.T) {
	before := []jsonformat.Format{marked("{1"), marked("{")}
	d := decoder(t, jsonformat.Config{Fields: fields(), Before: before})
	for value, want := range map[string]string{"{1}": "{1", `{"eventId":"x"}`: "{", "[]": "e"} {
		if ev, err := d.Decode(record(value)); err != nil || ev.ID != want {
			t.Errorf("%s: %q, err %v", value, ev.ID, err)
		}
	}
	d = decoder(t, jsonformat.Config{Format: jsonformat.JSON, Fields: fields(), Before: before})
	if ev, err := d.Decode(record("{}")); err != nil || ev.ID != "e" {
		t.Errorf("the format json asked others: %q, err %v", ev.ID, err)
	}
}

func TestEventKeepsTheRecord(t *testing.T) {
	r := record(`{"a": 1}`, "id", "e2", "bin", "\xff\x00")
	ev, err := decoder(t, jsonformat.Config{Fields: fields()}).Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	if ev.Source != r.Source || len(ev.Headers) != 4 || string(ev.Headers[3].Value) != "\xff\x00" || string(ev.Payload) != `{"a": 1}` {
		t.Errorf("event %+v", ev)
	}
	if err := ev.Validate(); err != nil {
		t.Error(err)
	}
}

func TestDetailsNameRulesAndNoPayload(t *testing.T) {
	d := decoder(t, jsonformat.Config{Format: jsonformat.JSON, Fields: fields()})
	const secret = "hunter2"
	for value, want := range map[string]string{
		`{"secret":"` + secret + `"}`:                         `No event_id was found; tried: header:id, $.eventId.`,
		`{"eventId":["` + secret + `"]}`:                      `The rule "$.eventId" for event_id found a list.`,
		`{"eventId":"e","order":{"id":{"` + secret + `":1}}}`: `The rule "$.order.id" for aggregate_id found an object.`,
		`{"eventId":"e","order":{"id":1},"items":[1,{"type":"` + strings.Repeat(secret, 1000) + `"}]}`: `The rule "$.items[1].type" for event_type found 7000 bytes, more than the 1024 that can be stored.`,
		`{"a":` + secret + `}`: `The value of 13 bytes is no JSON; the first wrong byte is number 6.`,
	} {
		_, err := d.Decode(inbox.Record{Value: []byte(value)})
		r := refusal(t, err)
		if r.Detail != want || strings.Contains(err.Error(), secret) {
			t.Errorf("%.60s: %q", value, r.Detail)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	change := func(f func(*jsonformat.Config)) jsonformat.Config {
		cfg := jsonformat.Config{Fields: fields()}
		f(&cfg)
		return cfg
	}
	for want, cfg := range map[string]jsonformat.Config{
		`the format "xml" is none`:             change(func(c *jsonformat.Config) { c.Format = "xml" }),
		`tombstones cannot be "keep"`:          change(func(c *jsonformat.Config) { c.Tombstones = "keep" }),
		`fields.event_type has no usable rule`: change(func(c *jsonformat.Config) { c.Fields.EventType = nil }),
		`fields.event_id looks only into the value`: change(func(c *jsonformat.Config) {
			c.Format, c.Fields.EventID = jsonformat.Raw, []string{"$.id"}
		}),
		`fields.sequence: the rule "headers:x" is none`:    change(func(c *jsonformat.Config) { c.Fields.Sequence = []string{"headers:x"} }),
		`fields.sequence: the rule "header:" names no`:     change(func(c *jsonformat.Config) { c.Fields.Sequence = []string{"header:"} }),
		`the path "$" names nothing below`:                 change(func(c *jsonformat.Config) { c.Fields.Sequence = []string{"$"} }),
		`wrong at "..a": a name is missing`:                change(func(c *jsonformat.Config) { c.Fields.Sequence = []string{"$..a"} }),
		`wrong at "a": a dot or a bracket is missing`:      change(func(c *jsonformat.Config) { c.Fields.Sequence = []string{"$a"} }),
		`wrong at "[-1]": an index is a number from 0`:     change(func(c *jsonformat.Config) { c.Fields.Sequence = []string{"$.a[-1]"} }),
		`wrong at "[1": the bracket is not closed`:         change(func(c *jsonformat.Config) { c.Fields.Sequence = []string{"$.a[1"} }),
		`wrong at "[\"b": the quoted name is not closed`:   change(func(c *jsonformat.Config) { c.Fields.Sequence = []string{`$.a["b`} }),
		`wrong at "[*]": an index is a number from 0, and`: change(func(c *jsonformat.Config) { c.Fields.Sequence = []string{"$.a[*]"} }),
	} {
		if _, err := jsonformat.New(cfg); err == nil || !strings.Contains(err.Error(), want) &&
			!strings.Contains(err.Error(), strings.ReplaceAll(want, `\"`, `\\\"`)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if err := jsonformat.ValidateRules(jsonformat.DefaultFields()); err != nil {
		t.Error(err)
	}
	if err := jsonformat.ValidateRules(jsonformat.Fields{OccurredAt: []string{"where"}}); err == nil {
		t.Error("a wrong rule passed")
	}
}

func BenchmarkDecode(b *testing.B) {
	d := decoder(b, jsonformat.Config{Fields: jsonformat.DefaultFields()})
	r := inbox.Record{
		Key:   []byte("order-17"),
		Value: []byte(`{"eventId":"7f3c1d1e-0000-4000-8000-000000000001","eventType":"OrderPaid","orderId":"order-17","version":12,"amount":12345,"lines":[{"sku":"a","n":1},{"sku":"b","n":2}],"note":"` + strings.Repeat("x", 100) + `"}`),
	}
	b.SetBytes(int64(len(r.Value)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(r); err != nil {
			b.Fatal(err)
		}
	}
}
