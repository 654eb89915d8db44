package formats_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/formats"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

func decode(t *testing.T, format string, change func(*jsonformat.Fields), r inbox.Record) (inbox.Event, string) {
	t.Helper()
	fields := jsonformat.DefaultFields()
	change(&fields)
	d, err := formats.New(formats.Config{Format: format, Fields: fields})
	if err != nil {
		t.Fatal(err)
	}
	ev, err := d.Decode(r)
	var refused *inbox.Refusal
	if errors.As(err, &refused) {
		return ev, refused.Reason
	}
	return ev, ""
}

func headers(pairs ...string) (hs []inbox.Header) {
	for i := 0; i < len(pairs); i += 2 {
		hs = append(hs, inbox.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
	}
	return hs
}

func cloudEvent() inbox.Record {
	return inbox.Record{
		Key: []byte("k"), Value: []byte(`{"version":"v2","orderId":"o","n":5}`),
		Headers: headers("ce_specversion", "1.0", "ce_id", "1", "ce_source", "/s", "ce_type", "T",
			"ce_partitionkey", "p", "ce_subject", "s", "ce_sequence", "8", "id", "other", "eventType", "Other"),
	}
}

func TestRulesOfCloudEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, aggregate string
		sequence        int64
		reason          string
		change          func(*jsonformat.Fields)
	}{
		{"defaults", "p", 8, "", func(*jsonformat.Fields) {}},
		{"key first", "k", 8, "", func(f *jsonformat.Fields) { f.AggregateID = []string{"key", "ce:subject"} }},
		{"subject first", "s", 8, "", func(f *jsonformat.Fields) { f.AggregateID = []string{"ce:subject", "key"} }},
		{"path", "o", 8, "", func(f *jsonformat.Fields) { f.AggregateID = []string{"$.orderId"} }},
		{"nothing there", "", 0, "no-aggregate-id", func(f *jsonformat.Fields) { f.AggregateID = []string{"$.other"} }},
		{"sequence", "p", 5, "", func(f *jsonformat.Fields) { f.Sequence = []string{"$.n"} }},
		{"sequence that is none", "p", 8, "", func(f *jsonformat.Fields) { f.Sequence = []string{"$.none"} }},
		{"bad sequence", "", 0, "bad-sequence", func(f *jsonformat.Fields) { f.Sequence = []string{"$.orderId"} }},
		{"id and type are the event's own", "p", 8, "", func(f *jsonformat.Fields) {
			f.EventID, f.EventType = []string{"topic-partition-offset"}, []string{"header:eventType"}
		}},
	} {
		for _, format := range []string{formats.Auto, formats.CloudEvents} {
			ev, reason := decode(t, format, tt.change, cloudEvent())
			if reason != tt.reason {
				t.Errorf("%s, %s: refused with %q", tt.name, format, reason)
				continue
			}
			if reason == "" && (ev.AggregateID != tt.aggregate || *ev.Sequence != tt.sequence || ev.ID != "/s 1" || ev.Type != "T") {
				t.Errorf("%s, %s: %+v, sequence %v", tt.name, format, ev, *ev.Sequence)
			}
		}
	}
}

func TestRulesOfDebezium(t *testing.T) {
	t.Parallel()
	outbox := inbox.Record{
		Key: []byte(`"k"`), Value: []byte(`"{\"eventType\":\"FromValue\",\"n\":5}"`),
		Headers: headers("id", "1", "type", "T", "kind", "K"), Source: inbox.Source{Topic: "t"},
	}
	if ev, reason := decode(t, formats.Auto, func(*jsonformat.Fields) {}, outbox); reason != "" || ev.Type != "T" || ev.AggregateID != "k" {
		t.Errorf("%+v, refused with %q", ev, reason)
	}
	other := func(f *jsonformat.Fields) { f.EventType = []string{"header:kind"} }
	if ev, reason := decode(t, formats.Debezium, other, outbox); reason != "" || ev.Type != "K" {
		t.Errorf("%+v, refused with %q", ev, reason)
	}
	change := inbox.Record{
		Key:    []byte(`{"id":1}`),
		Value:  []byte(`{"op":"c","after":{"customer":7,"rev":3},"source":{"connector":"postgresql","lsn":1,"table":"orders"}}`),
		Source: inbox.Source{Topic: "t"},
	}
	rules := func(f *jsonformat.Fields) {
		f.AggregateID, f.Sequence = []string{"$.after.customer", "$.before.customer"}, []string{"$.after.rev"}
	}
	ev, reason := decode(t, formats.Auto, rules, change)
	if reason != "" || ev.AggregateID != "7" || *ev.Sequence != 3 || ev.Type != "orders.created" {
		t.Errorf("%+v, refused with %q", ev, reason)
	}
}

func TestAutoTriesInOrder(t *testing.T) {
	t.Parallel()
	both := cloudEvent() // a converter of Debezium's writes CloudEvents, with its context in headers
	both.Headers = append(both.Headers, headers("__debezium.context.taskId", "0")...)
	if ev, _ := decode(t, formats.Auto, func(*jsonformat.Fields) {}, both); ev.ID != "/s 1" {
		t.Errorf("%+v is no CloudEvent", ev)
	}
	plain := inbox.Record{Key: []byte("k"), Value: []byte(`not JSON`), Headers: headers("id", "1", "eventType", "T")}
	if ev, _ := decode(t, formats.Auto, func(*jsonformat.Fields) {}, plain); ev.ID != "1" || string(ev.Payload) != "not JSON" {
		t.Errorf("%+v is not raw", ev)
	}
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]formats.Config{
		`the format "xml" is none`:                  {Format: "xml"},
		`tombstones cannot be "keep"`:               {Tombstones: "keep"},
		`fields.event_id: the rule "id" is none`:    {Fields: jsonformat.Fields{EventID: []string{"id"}}},
		`fields.event_id looks only into the value`: {Format: formats.Raw, Fields: jsonformat.Fields{EventID: []string{"$.id"}}},
		`names a type for tombstones`:               {Format: formats.CloudEvents, Fields: jsonformat.Fields{EventType: []string{"tombstone:X"}}},
		`but tombstones are set to "ignore"`:        {Format: formats.Debezium, Tombstones: "ignore", Fields: jsonformat.Fields{EventType: []string{"tombstone:X"}}},
	} {
		_, err := formats.New(cfg)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), want) != 1 {
			t.Errorf("want %q once, got %v", want, err)
		}
	}
	for _, format := range []string{"", formats.Auto, formats.JSON, formats.Raw, formats.CloudEvents, formats.Debezium} {
		if _, err := formats.New(formats.Config{Format: format}); err != nil {
			t.Errorf("%q: %v", format, err)
		}
	}
}

// FuzzAuto looks for records that panic, that become events which cannot be
// stored, or that become another event when they come again.
func FuzzAuto(f *testing.F) {
	for _, list := range samples(f) {
		for _, s := range list {
			r := s.record()
			name, value := "id", []byte("e")
			if len(r.Headers) > 0 {
				name, value = r.Headers[0].Name, r.Headers[0].Value
			}
			f.Add(r.Source.Topic, r.Key, r.Value, name, value)
		}
	}
	d, err := formats.New(formats.Config{Fields: jsonformat.Fields{EventID: []string{"header:id", "$.eventId", "topic-partition-offset"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, topic string, key, value []byte, name string, content []byte) {
		r := inbox.Record{
			Key: key, Value: value, Source: inbox.Source{Topic: topic, Offset: 1},
			Headers: append(headers("eventType", "T", "ce_id", "1", "ce_source", "/s", "ce_type", "T"), inbox.Header{Name: name, Value: content}),
		}
		before := string(value)
		ev, err := d.Decode(r)
		if string(value) != before {
			t.Fatal("the record was changed")
		}
		var refused *inbox.Refusal
		switch {
		case err == nil:
		case errors.Is(err, inbox.ErrIgnored), errors.As(err, &refused) && refused.Reason != "" && refused.Detail != "":
			return
		default:
			t.Fatalf("err = %v", err)
		}
		if err := ev.Validate(); err != nil && !strings.HasPrefix(err.Error(), "topic") && !strings.Contains(ev.ID, topic) {
			t.Fatal(err)
		}
		if again, err := d.Decode(r); err != nil || again.ID != ev.ID || again.AggregateID != ev.AggregateID || again.Type != ev.Type {
			t.Fatalf("%+v and %+v, err %v", ev, again, err)
		}
	})
}
