package debezium_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/debezium"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

var recordTime = time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)

// rules makes an inner decoder.
func rules(t testing.TB, fields jsonformat.Fields) inbox.Decoder {
	t.Helper()
	d, err := jsonformat.New(jsonformat.Config{Fields: fields, Tombstones: jsonformat.TombstoneEvent})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func decoder(t testing.TB) *debezium.Decoder {
	t.Helper()
	return configured(t, []string{"key"}, false)
}

func configured(t testing.TB, aggregate []string, byOffset bool) *debezium.Decoder {
	t.Helper()
	d, err := debezium.New(debezium.Config{
		Outbox: rules(t, jsonformat.Fields{
			EventID: []string{"header:id"}, AggregateID: []string{"key"},
			EventType: []string{"header:eventType", "$.eventType"}, Sequence: []string{"$.version"},
		}),
		Changes: rules(t, jsonformat.Fields{
			EventID: []string{"$.op"}, AggregateID: aggregate, EventType: []string{"$.op"},
			OccurredAt: []string{"$.source.ts_ms"},
		}),
		ByOffset: byOffset,
	})
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

// outbox is a record of the outbox event router.
func outbox(key, value string, more ...string) inbox.Record {
	return inbox.Record{
		Key: []byte(key), Value: []byte(value), Time: recordTime,
		Headers: headers(append([]string{"id", "e-1", "eventType", "Paid"}, more...)...),
		Source:  inbox.Source{Topic: "outbox.event.order", Partition: 1, Offset: 2},
	}
}

func reason(err error) string {
	var r *inbox.Refusal
	switch {
	case errors.Is(err, inbox.ErrIgnored):
		return "ignored"
	case errors.As(err, &r) && r.Detail != "":
		return r.Reason
	}
	return "no refusal"
}

func TestOutboxValues(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"version": 3, "n": 1.00}`:       `{"version": 3, "n": 1.00}`,
		`"{\"version\": 3, \"n\": 1.00}"`: `{"version": 3, "n": 1.00}`,
		`{"schema":{"type":"string","optional":false},"payload":"{\"version\":3}"}`: `{"version":3}`,
		`{"payload": {"version":  3}, "schema":{"type":"struct"}}`:                  `{"version":  3}`,
		`{"schema":null,"payload":{"version":3}}`:                                   `{"version":3}`,
		`{"schema":{"type":"bytes","optional":true},"payload":"AP8="}`:              "\x00\xff",
		`{"schema":{"type":"bytes","optional":true},"payload":"not base64"}`:        "not base64",
		`{"schema":{"type":"string","optional":true},"payload":null}`:               "",
		"\x00\x00\x00\x00\x01\x02":                                                  "\x00\x00\x00\x00\x01\x02",
		`"plain text"`:                                                              "plain text",
		`plain text`:                                                                `plain text`,
		`null`:                                                                      `null`,
		`"half \ud800"`:                                                             `"half \ud800"`,
		`{"schema":"mine","payload":1}`:                                             `{"schema":"mine","payload":1}`,
		`{"schema":{"type":"struct"},"payload":1,"more":2}`:                         `{"schema":{"type":"struct"},"payload":1,"more":2}`,
		``: ``,
		`{"schema":{"type":"int64"},"payload":12345678901234567890123}`: `12345678901234567890123`,
	} {
		r := outbox("o-1", value)
		ev, err := decoder(t).Decode(r)
		if err != nil || string(ev.Payload) != want || ev.Payload == nil {
			t.Errorf("%s: %q, err %v", value, ev.Payload, err)
			continue
		}
		if (ev.Sequence != nil) != strings.Contains(want, "version") {
			t.Errorf("%s: sequence %v: rules look into the unwrapped value", value, ev.Sequence)
		}
		if ev.ID != "e-1" || ev.AggregateID != "o-1" || ev.Type != "Paid" || len(ev.Headers) != 2 || ev.Source != r.Source {
			t.Errorf("%s: %+v", value, ev)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		`order-1`:   `order-1`,
		`"order-1"`: `order-1`,
		`17`:        `17`,
		`"a\u0062"`: `ab`,
		`{"schema":{"type":"string","optional":false},"payload":"order-1"}`:       `order-1`,
		`{"schema":{"type":"int64","optional":false},"payload":9007199254740993}`: `9007199254740993`,
		`{"schema":null,"payload":"order-1"}`:                                     `order-1`,
		`{"schema":{"type":"struct"},"payload":{"id":1.0}}`:                       `1.0`,
		`{"id":"x"}`:                   `x`,
		`{"id":{"b":1, "a":2}}`:        `{"a":2,"b":1}`,
		`{"line": 2, "id" : "x"}`:      `{"id":"x","line":2}`,
		`{"line":2,"id":null}`:         `{"id":null,"line":2}`,
		`[1, 2]`:                       `[1,2]`,
		`{"id":"{\"$oid\":\"596e\"}"}`: `{"$oid":"596e"}`,
		`{`:                            `{`,
		`null`:                         "no-aggregate-id",
		`{"id":null}`:                  "no-aggregate-id",
		``:                             "no-aggregate-id",
		"\xff":                         "bad-aggregate-id",
		`"\u0000"`:                     "bad-aggregate-id",
		"\x00\x00\x00\x00\x01\x02":     "bad-aggregate-id",
	} {
		ev, err := decoder(t).Decode(outbox(key, "{}"))
		got := ev.AggregateID
		if err != nil {
			got = reason(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q (%v)", key, got, want, err)
		}
	}
}

func TestHeadersHaveAConverterToo(t *testing.T) {
	t.Parallel()
	r := outbox("o-1", "{}")
	r.Headers = headers("id", `"e-2"`, "eventType", `{"schema":{"type":"string","optional":false},"payload":"Shipped"}`)
	ev, err := decoder(t).Decode(r)
	if err != nil || ev.ID != "e-2" || ev.Type != "Shipped" {
		t.Fatalf("%+v, err %v", ev, err)
	}
	if string(ev.Headers[0].Value) != `"e-2"` {
		t.Error("the event's headers are not those of the record")
	}
}

func TestTombstone(t *testing.T) {
	t.Parallel()
	r := outbox(`{"id":7}`, "")
	r.Value = nil
	ev, err := decoder(t).Decode(r)
	if err != nil || ev.AggregateID != "7" || ev.Payload != nil {
		t.Errorf("%+v, err %v", ev, err)
	}
}

func TestRecordsAboutNoRow(t *testing.T) {
	t.Parallel()
	source := `"source":{"connector":"postgresql","name":"shop","ts_ms":1,"lsn":1,"table":"orders"}`
	for name, tt := range map[string]struct{ topic, key, value, want string }{
		"heartbeat":         {"__debezium-heartbeat.shop", `{"serverName":"shop"}`, `{"ts_ms":1}`, "ignored"},
		"heartbeat wrapped": {"beats", `{"schema":{"type":"struct"},"payload":{"serverName":"shop"}}`, `{"schema":{"type":"struct"},"payload":{"ts_ms":1}}`, "ignored"},
		"begin":             {"shop.transaction", `{"id":"571"}`, `{"status":"BEGIN","id":"571","event_count":null,"data_collections":null,"ts_ms":1}`, "ignored"},
		"end":               {"shop.transaction", `{"id":"571"}`, `{"status":"END","id":"571","event_count":1,"data_collections":[{"data_collection":"s.a","event_count":1}]}`, "ignored"},
		"truncate":          {"shop.public.orders", ``, `{"before":null,"after":null,"op":"t",` + source + `}`, "truncate"},
		"schema":            {"shop", `{"databaseName":"shop"}`, `{"databaseName":"shop","ddl":"create table …","tableChanges":[],` + source + `}`, "schema-change"},
		"other op":          {"shop.public.orders", `{"id":1}`, `{"op":"x",` + source + `}`, "bad-change"},
		"no table":          {"shop.public.orders", `{"id":1}`, `{"op":"c","source":{"connector":"postgresql","lsn":1}}`, "no-event-type"},
		"table NUL":         {"shop.public.orders", `{"id":1}`, `{"op":"c","source":{"connector":"postgresql","lsn":1,"table":"\u0000"}}`, "bad-event-type"},
		"table half":        {"shop.public.orders", `{"id":1}`, `{"op":"c","source":{"connector":"postgresql","lsn":1,"table":"\ud800"}}`, "bad-event-type"},
	} {
		r := inbox.Record{Key: []byte(tt.key), Value: []byte(tt.value), Source: inbox.Source{Topic: tt.topic}}
		d := decoder(t)
		_, err := d.Decode(r)
		if got := reason(err); got != tt.want {
			t.Errorf("%s: %s (%v)", name, got, err)
		}
		if name != "heartbeat wrapped" && !d.Recognizes(r) {
			t.Errorf("%s is not recognized", name)
		}
	}
}

func TestRecognizes(t *testing.T) {
	t.Parallel()
	plain := func(topic, key, value string, hs ...string) inbox.Record {
		r := inbox.Record{Key: []byte(key), Value: []byte(value), Headers: headers(hs...), Source: inbox.Source{Topic: topic}}
		if value == "nil" {
			r.Value = nil
		}
		return r
	}
	envelope := `{"schema":{"type":"string"},"payload":"x"}`
	for name, r := range map[string]inbox.Record{
		"context header":  plain("t", "k", "x", "__debezium.context.connectorName", "postgresql"),
		"router's topic":  plain("outbox.event.order", "k", "x", "id", "1"),
		"quoted key":      plain("t", `"k"`, "x", "id", "1"),
		"key in envelope": plain("t", envelope, "x", "id", "1"),
		"JSON in string":  plain("t", "k", `"{\"a\":1}"`, "id", "1"),
		"value envelope":  plain("t", "k", envelope),
		"change":          plain("t", "k", `{"op":"c","source":{"connector":"mysql"}}`),
		"tombstone":       plain("t", envelope, "nil"),
	} {
		if !decoder(t).Recognizes(r) {
			t.Errorf("%s is not recognized", name)
		}
	}
	for name, r := range map[string]inbox.Record{
		"plain JSON":      plain("t", "k", `{"op":"c","source":"web"}`, "id", "1"),
		"own envelope":    plain("t", "k", `{"schema":1,"payload":{"type":"x"}}`, "id", "1"),
		"other topic":     plain("outbox.event.order", "k", "x"),
		"text":            plain("t", "k", `"text"`, "id", "1"),
		"string, no id":   plain("t", `"k"`, `"{}"`),
		"bytes":           plain("t", "\x00", "\x00\x01", "id", "1"),
		"bare key":        plain("t", `{"id":1}`, "nil"),
		"nothing":         {},
		"JSON about both": plain("t", "k", `{"source":"a","connector":"b","schema":1,"payload":2}`),
	} {
		if decoder(t).Recognizes(r) {
			t.Errorf("%s is recognized", name)
		}
	}
}
