package admin_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox"
)

func (s *stage) events(f admin.EventFilter) []string {
	s.t.Helper()
	list := []string{}
	for e, err := range s.Events(s.t.Context(), f) {
		must(s.t, err)
		list = append(list, e.EventID)
	}
	return list
}

func TestEvents(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, "a")
	s.put("Shipped", 1, "b", "a")
	s.put("Paid", 1, "c")
	for i, id := range []string{"a/Paid-1", "a/Paid-2", "b/Shipped-1", "a/Shipped-1", "c/Paid-1"} {
		s.exec(`update inboxd.inbox set received_at = '2026-01-31 12:00Z'::timestamptz + $1 * interval '1 minute' where event_id = $2`, i, id)
	}
	s.exec(`select inboxd.open_segment()`)
	s.put("Paid", 1, "d")
	s.exec(`update inboxd.lanes set cursor = 1 where aggregate_id = 'a'`)
	at := func(minute int) time.Time { return time.Date(2026, 1, 31, 12, minute, 0, 0, time.UTC) }
	for _, tc := range []struct {
		f    admin.EventFilter
		want string
	}{
		{admin.EventFilter{}, "d/Paid-1 c/Paid-1 a/Shipped-1 b/Shipped-1 a/Paid-2 a/Paid-1"},
		{admin.EventFilter{Limit: 2}, "d/Paid-1 c/Paid-1"},
		{admin.EventFilter{AggregateID: "a"}, "a/Paid-1 a/Paid-2 a/Shipped-1"},
		{admin.EventFilter{AggregateID: "a", Limit: 2}, "a/Paid-1 a/Paid-2"},
		{admin.EventFilter{AggregateID: "a", Type: "Shipped"}, "a/Shipped-1"},
		{admin.EventFilter{AggregateID: "a", From: at(1)}, "a/Paid-2 a/Shipped-1"},
		{admin.EventFilter{AggregateID: "a", Until: at(1)}, "a/Paid-1"},
		{admin.EventFilter{Type: "Shipped"}, "a/Shipped-1 b/Shipped-1"},
		{admin.EventFilter{Type: "Ship\x00ped"}, ""},
		{admin.EventFilter{From: at(1), Until: at(3)}, "b/Shipped-1 a/Paid-2"},
		{admin.EventFilter{From: at(4)}, "d/Paid-1 c/Paid-1"},
		{admin.EventFilter{Processed: new(true)}, "a/Paid-1"},
		{admin.EventFilter{Processed: new(false), Type: "Paid"}, "d/Paid-1 c/Paid-1 a/Paid-2"},
		{admin.EventFilter{AggregateID: "a", Processed: new(true)}, "a/Paid-1"},
		{admin.EventFilter{AggregateID: "a", Processed: new(false)}, "a/Paid-2 a/Shipped-1"},
	} {
		equal(t, strings.Join(s.events(tc.f), " "), tc.want)
		if tc.f.Limit == 0 {
			n, err := s.CountEvents(t.Context(), tc.f)
			must(t, err)
			equal(t, fmt.Sprint(tc.f, n), fmt.Sprint(tc.f, len(strings.Fields(tc.want))))
		}
	}
	for want, f := range map[string]admin.EventFilter{
		"the limit is -1": {Limit: -1},
		"no time is both at or after 2026-01-31T12:03:00Z and before 2026-01-31T12:01:00Z": {From: at(3), Until: at(1)},
	} {
		if _, err := s.CountEvents(t.Context(), f); !errors.Is(err, admin.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
	}
}

// TestNewestOfALongSegment: the newest events are found wherever they stand,
// although the search begins at the end.
func TestNewestOfALongSegment(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, "a")
	const many = 80_000
	s.exec(`insert into inboxd.inbox (lane_id, position, received_at, occurred_at, segment, event_id, aggregate_id, event_type, payload)
select 1, 1 + g, case when g = 10 or g = 1000 then now() else now() - interval '1 hour' - abs(g - 70000) * interval '1 ms' end, now(), 1,
	'e' || g, 'a', case when g % 20000 = 0 then 'Rare' else 'Paid' end, convert_to(repeat('x', 100), 'utf8')
from generate_series(1, $1::integer) g`, many)
	if pages := one[int64](s, `select pg_relation_size('inboxd.inbox_1') / 8192`); pages < 1500 {
		t.Fatalf("the segment has %d pages only", pages)
	}
	equal(t, strings.Join(s.events(admin.EventFilter{Limit: 5}), " "), "e1000 e10 a/Paid-1 e70000 e70001")
	equal(t, strings.Join(s.events(admin.EventFilter{Limit: 3, Type: "Rare"}), " "), "e80000 e60000 e40000")
	equal(t, len(s.events(admin.EventFilter{Limit: many + 5})), many+1)

	// Counting ends where it was told to.
	for limit, want := range map[int]int{0: many + 1, 10: 10, many + 9: many + 1} {
		n, err := s.CountEvents(t.Context(), admin.EventFilter{Limit: limit})
		must(t, err)
		equal(t, n, want)
	}
}

func TestEventsOfALongLane(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1203, "long")
	for limit, want := range map[int]int{0: 1203, 700: 700, 500: 500, 2000: 1203} {
		got := s.events(admin.EventFilter{AggregateID: "long", Limit: limit})
		equal(t, len(got), want)
		equal(t, got[want-1], fmt.Sprintf("long/Paid-%d", want))
	}
	for _, f := range []admin.EventFilter{{AggregateID: "long"}, {}} { // a reader may stop
		next, stop := iter.Pull2(s.Events(t.Context(), f))
		_, err, ok := next()
		must(t, err)
		equal(t, ok, true)
		stop()
	}
}

func TestEventJSON(t *testing.T) {
	t.Parallel()
	s := setup(t)
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3600))
	event := func(id string, payload []byte) inbox.Event {
		return inbox.Event{ID: id, AggregateID: "a", Type: "Paid", Payload: payload, OccurredAt: at}
	}
	full := event("full", []byte(`{"amount": 12345678901234567890123456789.10, "a": "<b>"}`))
	full.Headers = []inbox.Header{{Name: "k", Value: []byte("1")}, {Name: "k", Value: []byte("<2>")}, {Name: "raw", Value: []byte{0xff}}}
	full.Source = inbox.Source{Topic: "orders", Partition: 3, Offset: 1 << 40}
	far := event("far", nil)
	far.OccurredAt = time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := s.store.Put(t.Context(), []inbox.Event{full, event("null", []byte("null")), event("raw", []byte("\x00{")),
		event("latin", []byte("\"\xe4\"")), far})
	must(t, err)
	s.exec(`update inboxd.inbox set received_at = '2026-01-31 12:00Z'`)
	const rest, end = `"processed_at":null,"skipped_at":null,"attempts":0,`, `"edit":null,"failures":[]}`
	for id, want := range map[string]string{
		"full": `{"event_id":"full","aggregate_id":"a","event_type":"Paid","position":1,"received_at":"2026-01-31T12:00:00Z","occurred_at":"2026-01-31T11:00:00Z",` + rest +
			`"source":{"topic":"orders","partition":3,"offset":1099511627776},"headers":{"k":"<2>","raw":"/w=="},"edited_at":null,"payload":{"amount":12345678901234567890123456789.10,"a":"<b>"},` + end,
		"null": `{"event_id":"null","aggregate_id":"a","event_type":"Paid","position":2,"received_at":"2026-01-31T12:00:00Z","occurred_at":"2026-01-31T11:00:00Z",` + rest +
			`"source":null,"headers":{},"edited_at":null,"payload":null,` + end,
		"raw": `{"event_id":"raw","aggregate_id":"a","event_type":"Paid","position":3,"received_at":"2026-01-31T12:00:00Z","occurred_at":"2026-01-31T11:00:00Z",` + rest +
			`"source":null,"headers":{},"edited_at":null,"payload_base64":"AHs=",` + end,
		"latin": `{"event_id":"latin","aggregate_id":"a","event_type":"Paid","position":4,"received_at":"2026-01-31T12:00:00Z","occurred_at":"2026-01-31T11:00:00Z",` + rest +
			`"source":null,"headers":{},"edited_at":null,"payload_base64":"IuQi",` + end,
		"far": `{"event_id":"far","aggregate_id":"a","event_type":"Paid","position":5,"received_at":"2026-01-31T12:00:00Z","occurred_at":null,` + rest +
			`"source":null,"headers":{},"edited_at":null,"payload_base64":"",` + end,
	} {
		d, err := s.Event(t.Context(), id)
		must(t, err)
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		must(t, enc.Encode(d))
		equal(t, strings.TrimSpace(b.String()), want)
	}
	d, err := s.Event(t.Context(), "full")
	must(t, err)
	equal(t, string(d.Payload), string(full.Payload))
	equal(t, len(d.Headers), 3)
}

func TestProcessedEvents(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, "a")
	s.put("Flaky", 1, "a")
	s.put("Skipped", 1, "a")
	s.put("Broken", 1, "a")
	s.run(1)
	var got []string
	for e, err := range s.Events(t.Context(), admin.EventFilter{AggregateID: "a"}) {
		must(t, err)
		got = append(got, fmt.Sprint(e.EventType, e.ProcessedAt != nil, e.SkippedAt != nil, " ", e.Attempts))
	}
	equal(t, strings.Join(got, ", "), "Paidtrue false 1, Flakytrue false 2, Skippedtrue true 0, Brokenfalse false 1")
}

func TestQuarantine(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`insert into inboxd.quarantine (received_at, reason, detail, source_topic, source_partition, source_offset, key, value, headers)
		values ('2026-01-31 12:00Z', 'not-json', 'the value is not JSON', 'orders', 2, 77, '\x00ff', '\x7b', '[["h", "v"]]')`)
	s.exec(`insert into inboxd.quarantine (reason, detail) select 'tombstone', 'n ' || g from generate_series(1, 1100) g`)
	var ids []int64
	for q, err := range s.Quarantine(t.Context(), admin.QuarantineFilter{}) {
		must(t, err)
		ids = append(ids, q.ID)
	}
	equal(t, fmt.Sprint(len(ids), ids[0], ids[1100]), "1101 1101 1")
	n, err := s.CountQuarantine(t.Context(), admin.QuarantineFilter{})
	must(t, err)
	equal(t, n, 1101)
	ids = nil
	for q, err := range s.Quarantine(t.Context(), admin.QuarantineFilter{Limit: 700}) {
		must(t, err)
		ids = append(ids, q.ID)
	}
	equal(t, fmt.Sprint(len(ids), ids[699]), "700 402")
	for id, want := range map[int64]string{
		1: `{"id":1,"received_at":"2026-01-31T12:00:00Z","reason":"not-json","detail":"the value is not JSON","source":{"topic":"orders","partition":2,"offset":77},"size":1,` +
			`"key_base64":"AP8=","value_base64":"ew==","headers":{"h":"v"}}`,
		2: `"reason":"tombstone","detail":"n 1","source":null,"size":0,"key_base64":null,"value_base64":null,"headers":{}}`,
	} {
		d, err := s.QuarantineRecord(t.Context(), id)
		must(t, err)
		b, err := json.Marshal(d)
		must(t, err)
		if !strings.HasSuffix(string(b), want) {
			t.Errorf("got %s", b)
		}
	}
}
