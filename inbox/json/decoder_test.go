package jsonformat_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

var recordTime = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

// fields has a header first and a path second, for everything.
func fields() jsonformat.Fields {
	return jsonformat.Fields{
		EventID:     []string{"header:id", "$.eventId"},
		AggregateID: []string{"key", "$.order.id"},
		EventType:   []string{"header:type", "$.items[1].type"},
		Sequence:    []string{"header:seq", "$.version"},
		OccurredAt:  []string{"header:at", "$.at"},
	}
}

func decoder(t testing.TB, cfg jsonformat.Config) *jsonformat.Decoder {
	t.Helper()
	d, err := jsonformat.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func headers(pairs ...string) (hs []inbox.Header) {
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, inbox.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
	}
	return hs
}

// record has whatever the fields need in its headers and key.
func record(value string, more ...string) inbox.Record {
	return inbox.Record{
		Key: []byte("a"), Value: []byte(value), Time: recordTime,
		Headers: headers(append([]string{"id", "e", "type", "T"}, more...)...),
		Source:  inbox.Source{Topic: "t", Partition: 1, Offset: 2},
	}
}

func refusal(t *testing.T, err error) *inbox.Refusal {
	t.Helper()
	var r *inbox.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("err = %v, not a refusal", err)
	}
	return r
}

// ids decodes values whose id, aggregate and type are in the value alone.
func TestEventID(t *testing.T) {
	digits := strings.Repeat("1234567890", 10)
	long := strings.Repeat("x", inbox.MaxName+1)
	for _, tt := range []struct {
		name, id string // id is the JSON at $.eventId
		want     string // "" with a reason
		reason   string
	}{
		{"string", `"e-1"`, "e-1", ""},
		{"escapes", `"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`, "\"\\/\b\f\n\r\té😀", ""},
		{"number", `17`, "17", ""},
		{"hundred digits", digits, digits, ""},
		{"decimals are kept", `1.0`, "1.0", ""},
		{"exponent is kept", `-1E+2`, "-1E+2", ""},
		{"boolean", `true`, "true", ""},
		{"null", `null`, "", "no-event-id"},
		{"empty", `""`, "", "no-event-id"},
		{"object", `{"a":1}`, "", "bad-event-id"},
		{"list", `[1]`, "", "bad-event-id"},
		{"NUL", `"a\u0000b"`, "", "bad-event-id"},
		{"first half of a pair", `"\ud83d"`, "", "bad-event-id"},
		{"second half of a pair", `"\ude00x"`, "", "bad-event-id"},
		{"halves that do not fit", `"\ud83d\u0041"`, "", "bad-event-id"},
		{"no UTF-8", "\"\xff\"", "", "bad-event-id"},
		{"too long", `"` + long + `"`, "", "bad-event-id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fields()
			f.EventID = []string{"$.eventId"}
			d := decoder(t, jsonformat.Config{Format: jsonformat.JSON, Fields: f})
			ev, err := d.Decode(record(`{"x":[{"eventId":"not me"}], "eventId" : ` + tt.id + ` }`))
			if tt.reason != "" {
				if r := refusal(t, err); r.Reason != tt.reason {
					t.Fatalf("refused with %v", r)
				}
				return
			}
			if err != nil || ev.ID != tt.want {
				t.Fatalf("id %q, err %v", ev.ID, err)
			}
		})
	}
}

func TestFirstHitWins(t *testing.T) {
	const value = `{"eventId":"from path","order":{"id":7},"items":[0,{"type":"P"}],"version":3}`
	d := decoder(t, jsonformat.Config{Format: jsonformat.JSON, Fields: fields()})

	ev, err := d.Decode(inbox.Record{Key: []byte("k"), Value: []byte(value), Headers: headers("id", "h", "type", "H", "seq", "9")})
	if err != nil {
		t.Fatal(err)
	}
	if ev.ID != "h" || ev.AggregateID != "k" || ev.Type != "H" || *ev.Sequence != 9 {
		t.Errorf("the first places did not win: %+v", ev)
	}

	ev, err = d.Decode(inbox.Record{Key: []byte{}, Value: []byte(value), Headers: headers("id", "", "other", "x")})
	if err != nil {
		t.Fatal(err)
	}
	if ev.ID != "from path" || ev.AggregateID != "7" || ev.Type != "P" || *ev.Sequence != 3 {
		t.Errorf("missing and empty places were not passed over: %+v", ev)
	}
}

func TestUnusableIsNotPassedOver(t *testing.T) {
	const value = `{"eventId":"good","order":{"id":"good"},"items":[0,{"type":"good"}]}`
	d := decoder(t, jsonformat.Config{Format: jsonformat.JSON, Fields: fields()})
	for name, tt := range map[string]struct {
		record inbox.Record
		reason string
	}{
		"header no UTF-8": {inbox.Record{Value: []byte(value), Headers: headers("id", "\xff")}, "bad-event-id"},
		"header NUL":      {inbox.Record{Value: []byte(value), Headers: headers("id", "a\x00")}, "bad-event-id"},
		"key no UTF-8":    {inbox.Record{Value: []byte(value), Key: []byte{0xfe}}, "bad-aggregate-id"},
		"type NUL":        {inbox.Record{Value: []byte(value), Headers: headers("type", "\x00")}, "bad-event-type"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := d.Decode(tt.record)
			if r := refusal(t, err); r.Reason != tt.reason {
				t.Fatalf("refused with %v", r)
			}
		})
	}
}

func TestLastHeaderOfAName(t *testing.T) {
	d := decoder(t, jsonformat.Config{Format: jsonformat.Raw, Fields: fields()})
	ev, err := d.Decode(record("", "id", "later"))
	if err != nil || ev.ID != "later" {
		t.Fatalf("id %q, err %v", ev.ID, err)
	}
	if _, err = d.Decode(record("", "Id", "other case")); err != nil {
		t.Fatal(err)
	}
}

func TestRepeatedKeys(t *testing.T) {
	f := fields()
	f.EventID = []string{"$.a.id", "$.b[0]"}
	d := decoder(t, jsonformat.Config{Fields: f})
	for value, want := range map[string]string{
		`{"a":{"id":"first"},"a":{"id":"last"}}`:        "last",
		`{"a":{"id":"first"},"a":{"x":1},"b":["b"]}`:    "b",
		`{"a":{"id":"first"},"a":null,"b":["b"]}`:       "b",
		`{"a":{"id":"1","id":"2","\u0069d":"3"}}`:       "3",
		`{"b":["one"],"b":[],"a":{"id":{},"id":"yes"}}`: "yes",
	} {
		ev, err := d.Decode(record(value))
		if err != nil || ev.ID != want {
			t.Errorf("%s: id %q, err %v", value, ev.ID, err)
		}
	}
}

func TestPaths(t *testing.T) {
	const value = ` { "deep" : [ [ ] , [ { "a.b" : { "" : "quoted" , "c[0]" : "brackets" } } , 1e5 ] ] , "é" : "accent" , "list" : [ "x\"]" , [ ] , { } , "third" ] } `
	for path, want := range map[string]string{
		`$.deep[1][0]["a.b"][""]`:     "quoted",
		`$.deep[1][0]['a.b']['c[0]']`: "brackets",
		`$.deep[1][1]`:                "1e5",
		`$.é`:                         "accent",
		`$.list[3]`:                   "third",
		`$.list[0]`:                   `x"]`,
		`$.list[4]`:                   "",
		`$.list.x`:                    "",
		`$.deep.x`:                    "",
		`$.é.x`:                       "",
		`$[0]`:                        "",
	} {
		f := fields()
		f.EventID = []string{path}
		ev, err := decoder(t, jsonformat.Config{Fields: f}).Decode(record(value))
		if want == "" {
			if r := refusal(t, err); r.Reason != "no-event-id" {
				t.Errorf("%s: %v", path, r)
			}
		} else if err != nil || ev.ID != want {
			t.Errorf("%s: id %q, err %v", path, ev.ID, err)
		}
	}
}

func TestSequence(t *testing.T) {
	d := decoder(t, jsonformat.Config{Fields: fields()})
	for seq, want := range map[string]int64{
		`1`: 1, `-5`: -5, `0`: 0, `"12"`: 12,
		`9223372036854775807`: math.MaxInt64, `-9223372036854775808`: math.MinInt64,
	} {
		ev, err := d.Decode(record(`{"version":` + seq + `}`))
		if err != nil || ev.Sequence == nil || *ev.Sequence != want {
			t.Errorf("%s: %v, err %v", seq, ev.Sequence, err)
		}
	}
	for _, seq := range []string{`9223372036854775808`, `1.0`, `1e3`, `true`, `"x"`, `[1]`, `{}`, `"1 "`} {
		_, err := d.Decode(record(`{"version":` + seq + `}`))
		if r := refusal(t, err); r.Reason != "bad-sequence" {
			t.Errorf("%s: %v", seq, r)
		}
	}
	for _, value := range []string{`{}`, `{"version":null}`, `{"version":""}`} {
		ev, err := d.Decode(record(value))
		if err != nil || ev.Sequence != nil {
			t.Errorf("%s: %v, err %v", value, ev.Sequence, err)
		}
	}
}

func TestOccurredAt(t *testing.T) {
	d := decoder(t, jsonformat.Config{Fields: fields()})
	for at, want := range map[string]time.Time{
		`"2026-01-02T03:04:05Z"`:             time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		`"2026-01-02T03:04:05.123456+02:00"`: time.Date(2026, 1, 2, 1, 4, 5, 123456000, time.UTC),
		`1767323045123`:                      time.UnixMilli(1767323045123),
		`"1767323045123"`:                    time.UnixMilli(1767323045123),
		`-1`:                                 time.UnixMilli(-1),
		`null`:                               recordTime,
		`""`:                                 recordTime,
	} {
		ev, err := d.Decode(record(`{"at":` + at + `}`))
		if err != nil || !ev.OccurredAt.Equal(want) {
			t.Errorf("%s: %v, err %v", at, ev.OccurredAt, err)
		}
	}
	for _, at := range []string{
		`"yesterday"`, `"2026-01-02"`, `"2026-01-02 03:04:05Z"`, `1.5`, `1e12`, `true`, `[]`,
		`9223372036854775807`, `253402300800000`, `-62135596800001`, `"0000-01-01T00:00:00Z"`,
	} {
		_, err := d.Decode(record(`{"at":` + at + `}`))
		if r := refusal(t, err); r.Reason != "bad-occurred-at" {
			t.Errorf("%s: %v", at, r)
		}
	}
}

func TestRecordTimeThatNobodyCanStore(t *testing.T) {
	d := decoder(t, jsonformat.Config{Fields: fields()})
	for _, at := range []time.Time{{}, time.UnixMilli(math.MaxInt64), time.UnixMilli(math.MinInt64)} {
		r := record(`{}`)
		r.Time = at
		ev, err := d.Decode(r)
		if err != nil || !ev.OccurredAt.IsZero() {
			t.Errorf("%v became %v, err %v", at, ev.OccurredAt, err)
		}
	}
}

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
