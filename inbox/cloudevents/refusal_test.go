package cloudevents_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/cloudevents"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

// without is a record in binary mode with one attribute changed; "" drops it.
func without(name, value string) inbox.Record {
	r := binary("{}")
	var kept []inbox.Header
	for _, h := range r.Headers {
		if h.Name == name {
			if value == "" {
				continue
			}
			h.Value = []byte(value)
		}
		kept = append(kept, h)
	}
	r.Headers = kept
	return r
}

func withType(contentType, value string) inbox.Record {
	return inbox.Record{Key: []byte("k"), Value: []byte(value), Headers: headers("content-type", contentType)}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", inbox.MaxName)
	const whole = `{"specversion":"1.0","id":"7","source":"/shop","type":"Paid"}`
	for name, tt := range map[string]struct {
		record inbox.Record
		want   string
	}{
		"no version":       {without("ce_specversion", ""), "not-cloudevents"},
		"old version":      {without("ce_specversion", "0.3"), "bad-specversion"},
		"no id":            {without("ce_id", ""), "no-event-id"},
		"no source":        {without("ce_source", ""), "no-event-id"},
		"no type":          {without("ce_type", ""), "no-event-type"},
		"empty id":         {binary("", "ce_id", ""), "no-event-id"},
		"id no UTF-8":      {without("ce_id", "\xff"), "bad-event-id"},
		"source NUL":       {without("ce_source", "a\x00"), "bad-event-id"},
		"type no UTF-8":    {without("ce_type", "\xff"), "bad-event-type"},
		"long id":          {without("ce_id", long+"x"), "bad-event-id"},
		"long together":    {without("ce_id", long), "bad-event-id"},
		"bad time":         {binary("", "ce_time", "yesterday"), "bad-occurred-at"},
		"bad key":          {inbox.Record{Key: []byte("\xff"), Headers: binary("").Headers, Value: []byte{}}, "bad-aggregate-id"},
		"no JSON":          {withType("application/cloudevents+json", "{"), "not-json"},
		"empty":            {withType("application/cloudevents+json", ""), "not-json"},
		"list":             {withType("application/cloudevents+json", "[]"), "not-an-object"},
		"batch":            {withType("application/cloudevents-batch+json", "["+whole+"]"), "cloudevents-batch"},
		"avro":             {withType("application/cloudevents+avro", "x"), "unsupported-content-type"},
		"UTF-16":           {withType("application/cloudevents+json; charset=utf-16", whole), "unsupported-content-type"},
		"structured old":   {withType("application/cloudevents+json", strings.Replace(whole, "1.0", "0.3", 1)), "bad-specversion"},
		"structured no id": {withType("application/cloudevents+json", strings.Replace(whole, `"id"`, `"Id"`, 1)), "no-event-id"},
		"null type":        {withType("application/cloudevents+json", strings.Replace(whole, `"Paid"`, "null", 1)), "no-event-type"},
		"list as id":       {withType("application/cloudevents+json", strings.Replace(whole, `"7"`, "[7]", 1)), "bad-attribute"},
		"half a pair":      {withType("application/cloudevents+json", strings.Replace(whole, `"7"`, `"\ud800"`, 1)), "bad-attribute"},
		"NUL in id":        {withType("application/cloudevents+json", strings.Replace(whole, `"7"`, `"\u0000"`, 1)), "bad-event-id"},
		"other JSON":       {inbox.Record{Value: []byte(`{"specversion":"1.0"}`)}, "not-cloudevents"},
		"tombstone":        {inbox.Record{Key: []byte("k")}, "tombstone"},
	} {
		_, err := decoder(t).Decode(tt.record)
		if got := reason(err); got != tt.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, tt.want)
		}
	}
}

func TestModes(t *testing.T) {
	t.Parallel()
	const whole = `{"specversion":"1.0","id":"7","source":"/shop","type":"Paid","data":1}`
	for _, contentType := range []string{
		"application/cloudevents+json", "APPLICATION/CloudEvents+JSON;charset=utf-8", "application/cloudevents",
		`application/cloudevents+json; charset="UTF-8"; x=y`, "application/cloudevents+json; broken", `"application/cloudevents+json"`,
		"application/json", "",
	} {
		d, r := decoder(t), withType(contentType, whole)
		if ev, err := d.Decode(r); err != nil || string(ev.Payload) != "1" || !d.Recognizes(r) {
			t.Errorf("%q: %q, err %v", contentType, ev.Payload, err)
		}
	}
	for _, value := range []string{`{"specversion":1,"id":"7","source":"/shop","type":"Paid"}`, `["specversion"]`, `{"specversion"`, `{}`, ``} {
		if decoder(t).Recognizes(withType("application/json", value)) {
			t.Errorf("%s is taken for a CloudEvent", value)
		}
	}
}

func TestOtherPrefixes(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"ce-", "cloudEvents:"} {
		r := binary("data")
		r.Headers = headers(prefix+"specversion", "1.0", prefix+"id", "7", prefix+"source", "/shop", prefix+"type", "Paid", prefix+"subject", "s")
		ev, err := decoder(t).Decode(r)
		if err != nil || ev.ID != "/shop 7" || ev.AggregateID != "s" || show(ev.Headers) != show(r.Headers) {
			t.Errorf("%s: %+v, err %v", prefix, ev, err)
		}
	}
}

func TestID(t *testing.T) {
	t.Parallel()
	pairs := [][2]string{
		{"/a", "b c"}, {"/a b", "c"}, {"a", "b"}, {"[a", `b"]`}, {`["a`, `b"]`}, {"a", ` b`}, {"a ", "b"},
		{`["a b"`, "c"}, {"a b", "c"}, {"[", "a"}, {`["a b","c"]`, ""},
	}
	seen := map[string][2]string{}
	for _, p := range pairs {
		id := cloudevents.ID(p[0], p[1])
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %q have one id, %s", p, other, id)
		}
		seen[id] = p
	}
	if got := cloudevents.ID("/orders", "A234"); got != "/orders A234" {
		t.Error(got)
	}
}

func TestTombstonesHaveTheirDecoder(t *testing.T) {
	t.Parallel()
	other, err := jsonformat.New(jsonformat.Config{Fields: jsonformat.DefaultFields(), Tombstones: jsonformat.TombstoneIgnore})
	if err != nil {
		t.Fatal(err)
	}
	d, err := cloudevents.New(cloudevents.Config{Fields: other, Tombstones: other})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(inbox.Record{Key: []byte("k")}); !errors.Is(err, inbox.ErrIgnored) {
		t.Error(err)
	}
	if _, err := cloudevents.New(cloudevents.Config{}); err == nil {
		t.Error("a decoder without fields was made")
	}
}
