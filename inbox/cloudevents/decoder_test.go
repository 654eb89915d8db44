package cloudevents_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/cloudevents"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

var recordTime = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

func decoder(t testing.TB, change ...func(*jsonformat.Fields)) *cloudevents.Decoder {
	t.Helper()
	fields := jsonformat.Fields{
		EventID:     []string{"header:ce_id"},
		AggregateID: []string{"header:ce_partitionkey", "header:ce_subject", "key"},
		EventType:   []string{"header:ce_type"},
		OccurredAt:  []string{"header:ce_time"},
	}
	for _, f := range change {
		f(&fields)
	}
	inner, err := jsonformat.New(jsonformat.Config{Fields: fields, Tombstones: jsonformat.TombstoneEvent})
	if err != nil {
		t.Fatal(err)
	}
	d, err := cloudevents.New(cloudevents.Config{Fields: inner})
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

// binary is a record in binary mode, with more headers; a nil value is "nil".
func binary(value string, more ...string) inbox.Record {
	r := inbox.Record{
		Key: []byte("k"), Time: recordTime, Source: inbox.Source{Topic: "t", Partition: 1, Offset: 2},
		Headers: headers(append([]string{"ce_specversion", "1.0", "ce_id", "7", "ce_source", "/shop", "ce_type", "Paid"}, more...)...),
	}
	if value != "nil" {
		r.Value = []byte(value)
	}
	return r
}

// structured is a record in structured mode, with more members.
func structured(more string) inbox.Record {
	r := binary(`{"specversion":"1.0","id":"7","source":"/shop","type":"Paid"` + more + `}`)
	r.Headers = headers("content-type", "application/cloudevents+json; charset=UTF-8", "trace", "x")
	return r
}

func reason(err error) string {
	var r *inbox.Refusal
	if errors.As(err, &r) && r.Detail != "" {
		return r.Reason
	}
	return "no refusal"
}

func show(hs []inbox.Header) string {
	var parts []string
	for _, h := range hs {
		parts = append(parts, h.Name+"="+string(h.Value))
	}
	return strings.Join(parts, " ")
}

func TestBinary(t *testing.T) {
	t.Parallel()
	r := binary("\x00\xff", "ce_time", "2024-01-02T03:04:05.678901Z", "ce_sequence", "0012", "content-type", "application/avro", "b", "\xff")
	ev, err := decoder(t).Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	if ev.ID != "/shop 7" || ev.Type != "Paid" || ev.AggregateID != "k" || *ev.Sequence != 12 ||
		!ev.OccurredAt.Equal(time.Date(2024, 1, 2, 3, 4, 5, 678901000, time.UTC)) || ev.Source != r.Source {
		t.Errorf("event %+v", ev)
	}
	if string(ev.Payload) != "\x00\xff" || show(ev.Headers) != show(r.Headers) {
		t.Errorf("payload %q, headers %s", ev.Payload, show(ev.Headers))
	}
	if err := ev.Validate(); err != nil {
		t.Error(err)
	}
}

func TestStructured(t *testing.T) {
	t.Parallel()
	ev, err := decoder(t).Decode(structured(`, "subject" : "order-1", "n":12.50, "yes":true, "none":null, "o":{"a": 1}, "datacontenttype":"text/json","time":"2024-01-02T03:04:05+01:00","data" : { "a" : 1.00 }`))
	if err != nil {
		t.Fatal(err)
	}
	if ev.ID != "/shop 7" || ev.Type != "Paid" || ev.AggregateID != "order-1" || ev.Sequence != nil ||
		!ev.OccurredAt.Equal(time.Date(2024, 1, 2, 2, 4, 5, 0, time.UTC)) {
		t.Errorf("event %+v", ev)
	}
	const want = `trace=x ce_specversion=1.0 ce_id=7 ce_source=/shop ce_type=Paid ce_subject=order-1 ce_n=12.50 ce_yes=true ` +
		`ce_time=2024-01-02T03:04:05+01:00 content-type=text/json ce_o={"a": 1}`
	if string(ev.Payload) != `{ "a" : 1.00 }` || show(ev.Headers) != want {
		t.Errorf("payload %q, headers %s", ev.Payload, show(ev.Headers))
	}
}

func TestHeadersOfStructuredModeGiveWay(t *testing.T) {
	t.Parallel()
	r := structured("")
	r.Headers = append(r.Headers, headers("ce_id", "other", "ce_type", "Other", "ce_extra", "kept", "Content-Type", "application/cloudevents")...)
	ev, err := decoder(t).Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	if ev.ID != "/shop 7" || show(ev.Headers) != "trace=x ce_extra=kept ce_specversion=1.0 ce_id=7 ce_source=/shop ce_type=Paid" {
		t.Errorf("id %s, headers %s", ev.ID, show(ev.Headers))
	}
}

func TestData(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		``:                                "nil",
		`,"data":null`:                    "null",
		`,"data":12345678901234567890.10`: "12345678901234567890.10",
		`,"data":"text"`:                  `"text"`,
		`,"data":"<a\u0062>\n","datacontenttype":"application/xml"`:              "<ab>\n",
		`,"data":"{\"a\":1}","datacontenttype":"application/vnd.x+json; v=1"`:    `"{\"a\":1}"`,
		`,"data":"nul \u0000","datacontenttype":"text/plain"`:                    "nul \x00",
		`,"data":{"a":1},"datacontenttype":"text/plain"`:                         `{"a":1}`,
		`,"data":null,"datacontenttype":"text/plain"`:                            "nil",
		`,"data_base64":"AP8="`:                                                  "\x00\xff",
		`,"data_base64":"AP8"`:                                                   "\x00\xff",
		`,"data_base64":""`:                                                      "",
		`,"data_base64":null`:                                                    "nil",
		`,"data_base64":null,"data":[1]`:                                         "[1]",
		`,"data":1,"data":2`:                                                     "2",
		`,"data_base64":"e30=","data":null,"datacontenttype":"application/json"`: "{}",
		`,"data_base64":"AP8","data":1`:                                          "refused: bad-data",
		`,"data_base64":"!"`:                                                     "refused: bad-data",
		`,"data_base64":1`:                                                       "refused: bad-data",
		`,"data":"\ud800","datacontenttype":"text/plain"`:                        "refused: bad-data",
		`,"data":"\ud800"`:                                                       `"\ud800"`,
	} {
		ev, err := decoder(t).Decode(structured(more))
		got := string(ev.Payload)
		if ev.Payload == nil {
			got = "nil"
		}
		if err != nil {
			got = "refused: " + reason(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", more, got, want)
		}
	}
}

func TestEventWithoutData(t *testing.T) {
	t.Parallel()
	d := decoder(t)
	r := binary("nil")
	if ev, err := d.Decode(r); err != nil || ev.Payload != nil || ev.ID != "/shop 7" || !d.Recognizes(r) {
		t.Errorf("event %+v, err %v", ev, err)
	}
	r = structured("")
	r.Value = nil
	if _, err := d.Decode(r); reason(err) != "tombstone" || d.Recognizes(r) {
		t.Errorf("structured mode without a value: %v", err)
	}
}

func TestAggregateBySpecialRules(t *testing.T) {
	t.Parallel()
	d := decoder(t)
	for _, tt := range []struct{ more, want string }{
		{`,"partitionkey":"p","subject":"s"`, "p"},
		{`,"partitionkey":"","subject":"s"`, "s"},
		{`,"partitionkey":17`, "17"},
		{``, "k"},
		{`,"partitionkey":{"a":1}`, "k"},
	} {
		if ev, err := d.Decode(structured(tt.more)); err != nil || ev.AggregateID != tt.want {
			t.Errorf("%s: %q, err %v", tt.more, ev.AggregateID, err)
		}
	}
	d = decoder(t, func(f *jsonformat.Fields) { f.AggregateID = []string{"$.order.id"} })
	for _, r := range []inbox.Record{structured(`,"data":{"order":{"id":1.0}}`), binary(`{"order":{"id":1.0}}`)} {
		if ev, err := d.Decode(r); err != nil || ev.AggregateID != "1.0" {
			t.Errorf("path into the data: %q, err %v", ev.AggregateID, err)
		}
	}
	if _, err := d.Decode(binary("nil")); reason(err) != "no-aggregate-id" {
		t.Errorf("nothing to look into: %v", err)
	}
}

func TestSequence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1": 1, "0000000001": 1, "-2147483648": -2147483648, "9223372036854775807": 1<<63 - 1} {
		ev, err := decoder(t).Decode(binary("", "ce_sequence", text))
		if err != nil || ev.Sequence == nil || *ev.Sequence != want {
			t.Errorf("%s: %v, err %v", text, ev.Sequence, err)
		}
	}
	for _, text := range []string{"01BX5ZZKBKACTAV9WEVGEMMVRZ", "1.0", "", "9223372036854775808"} {
		if ev, err := decoder(t).Decode(binary("", "ce_sequence", text)); err != nil || ev.Sequence != nil {
			t.Errorf("%s: %v, err %v", text, ev.Sequence, err)
		}
	}
	d := decoder(t, func(f *jsonformat.Fields) { f.Sequence = []string{"$.v"} })
	if ev, err := d.Decode(binary(`{"v":3}`, "ce_sequence", "9")); err != nil || *ev.Sequence != 3 {
		t.Errorf("a configured rule does not come first: %+v, err %v", ev, err)
	}
}
