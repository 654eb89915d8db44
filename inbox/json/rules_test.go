package jsonformat_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/inbox"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

func TestIdentityByOffset(t *testing.T) {
	t.Parallel()
	f := fields()
	f.EventID = []string{"header:id", jsonformat.ByOffset}
	for _, format := range []string{jsonformat.JSON, jsonformat.Raw, jsonformat.Auto} {
		d := decoder(t, jsonformat.Config{Format: format, Fields: f})
		r := record(`{}`)
		if ev, err := d.Decode(r); err != nil || ev.ID != "e" {
			t.Errorf("%s: a rule before it found %q, err %v", format, ev.ID, err)
		}
		r.Headers = headers("type", "T")
		r.Source = inbox.Source{Topic: "a-1", Partition: 20, Offset: 9000000000}
		if ev, err := d.Decode(r); err != nil || ev.ID != "a-1-20-9000000000" {
			t.Errorf("%s: %q, err %v", format, ev.ID, err)
		}
		r.Source = inbox.Source{}
		if _, err := d.Decode(r); err == nil || refusal(t, err).Reason != "no-event-id" {
			t.Errorf("%s: a record that is not from Kafka: %v", format, err)
		}
	}
}

func TestTombstoneWithAType(t *testing.T) {
	t.Parallel()
	f := fields()
	f.EventID = []string{"header:id", jsonformat.ByOffset}
	f.EventType = []string{"header:type", "$.type", "tombstone:OrderDeleted"}
	d := decoder(t, jsonformat.Config{Fields: f, Tombstones: jsonformat.TombstoneEvent})
	r := record("")
	r.Value, r.Headers = nil, nil
	ev, err := d.Decode(r)
	if err != nil || ev.Type != "OrderDeleted" || ev.ID != "t-1-2" || ev.AggregateID != "a" || ev.Payload != nil {
		t.Errorf("%+v, err %v", ev, err)
	}
	for _, value := range []string{"", "{}", "null"} {
		r.Value = []byte(value)
		if _, err := d.Decode(r); err == nil || refusal(t, err).Reason != "no-event-type" {
			t.Errorf("%q is no tombstone, but: %v", value, err)
		}
	}
}

func TestAttributesOfCloudEvents(t *testing.T) {
	t.Parallel()
	f := fields()
	f.AggregateID = []string{"ce:subject", "key"}
	d := decoder(t, jsonformat.Config{Fields: f})
	for _, hs := range [][]string{{"ce_subject", "s"}, {"ce_subject", ""}, {"subject", "x"}} {
		want := "a"
		if hs[1] == "s" {
			want = "s"
		}
		if ev, err := d.Decode(record("{}", hs...)); err != nil || ev.AggregateID != want {
			t.Errorf("%v: %q, err %v", hs, ev.AggregateID, err)
		}
	}
}

func TestJSONInsideOfAString(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"p":"{\"id\": 1234567890123456789012.50}"}`: "1234567890123456789012.50",
		`{"p":" [{\"id\":\"\\u0061\"}]"}`:             "",
		`{"p":"{\"id\":\"{\\\"id\\\":1}\"}"}`:         `{"id":1}`,
		`"{\"p\":\"{\\\"id\\\":\\\"twice\\\"}\"}"`:    "twice",
		`{"p":"{\"id\":1"}`:                           "",
		`{"p":"{\"id\":1}","p":"{}"}`:                 "",
		`{"p":{"id":"{}"}}`:                           "{}",
		`{"p":"\"{}\""}`:                              "",
		`{"p":"{\"id\":\"\ud800\"}"}`:                 "",
		`{"p":""}`:                                    "",
	} {
		f := fields()
		f.EventID = []string{"$.p.id", "header:none"}
		ev, err := decoder(t, jsonformat.Config{Fields: f}).Decode(record(value))
		if want == "" {
			if r := refusal(t, err); r.Reason != "no-event-id" {
				t.Errorf("%s: %v", value, r)
			}
		} else if err != nil || ev.ID != want || string(ev.Payload) != value {
			t.Errorf("%s: id %q, err %v", value, ev.ID, err)
		}
	}
}

func TestRulesForOneFieldAlone(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*jsonformat.Config){
		`fields.aggregate_id: the rule "topic-partition-offset" is for fields.event_id alone`: func(c *jsonformat.Config) {
			c.Fields.AggregateID = []string{jsonformat.ByOffset}
		},
		`fields.event_id: the rule "tombstone:X" is for fields.event_type alone`: func(c *jsonformat.Config) {
			c.Fields.EventID = []string{"tombstone:X"}
		},
		`fields.event_type: the rule "tombstone:" names nothing`: func(c *jsonformat.Config) { c.Fields.EventType = []string{"tombstone:"} },
		`fields.sequence: the rule "ce:" names nothing`:          func(c *jsonformat.Config) { c.Fields.Sequence = []string{"ce:"} },
		`names a type for tombstones, but tombstones are set to "quarantine"`: func(c *jsonformat.Config) {
			c.Fields.EventType, c.Tombstones = []string{"tombstone:X"}, ""
		},
	} {
		cfg := jsonformat.Config{Fields: fields(), Tombstones: jsonformat.TombstoneEvent}
		change(&cfg)
		if _, err := jsonformat.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := jsonformat.New(jsonformat.Config{Format: jsonformat.Raw, Fields: jsonformat.Fields{
		EventID: []string{jsonformat.ByOffset}, AggregateID: []string{"key"}, EventType: []string{"header:type"},
	}}); err != nil {
		t.Errorf("raw values with an identity by offset: %v", errors.Unwrap(err))
	}
}
