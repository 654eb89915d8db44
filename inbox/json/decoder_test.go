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
