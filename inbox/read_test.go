package inbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
)

// read lists the ids of a lane's events and fails the test on an error.
func (s *stage) read(aggregate string, from int64) (ids []string) {
	s.t.Helper()
	for e, err := range s.store.Lane(s.t.Context(), aggregate, from) {
		must(s.t, err)
		ids = append(ids, e.ID)
	}
	return ids
}

// ran notes in the ledger what workers would: events first to last of a lane were
// processed ('r') or skipped ('s').
func (s *stage) ran(aggregate string, first, last int, kind string) {
	s.t.Helper()
	s.exec(`insert into inboxd.runs (lane_id, first_position, last_position, at, generation, process_id, segment, kind)
		select lane_id, $2, $3, '2026-01-02 03:04:05Z', 0, 1, segment, $4
		from inboxd.inbox where aggregate_id = $1 and position = $3`, aggregate, first, last, kind)
	s.exec(`update inboxd.lanes set cursor = $2 where aggregate_id = $1`, aggregate, last)
}

func TestFind(t *testing.T) {
	t.Parallel()
	s := setup(t)
	sequence := int64(7)
	full := inbox.Event{ID: "full", AggregateID: "a", Type: "Paid", Sequence: &sequence, Payload: []byte("\x00\xff"),
		Headers:    []inbox.Header{{Name: "h", Value: []byte("\x00")}, {Name: "h"}},
		Source:     inbox.Source{Topic: "t", Partition: 2, Offset: 1 << 40},
		OccurredAt: time.Date(2025, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))}
	s.put(full, event("skipped", "a"), event("pending", "a"))
	s.openSegment()
	s.put(event("newer", "a"))
	s.ran("a", 1, 1, "r")
	s.ran("a", 2, 2, "s")
	s.exec(`insert into inboxd.failures (lane_id, position, attempt, process_id, fingerprint, message)
		select lane_id, position, n, 1, 'f', 'm' from inboxd.inbox, generate_series(1, 2) n where event_id in ('full', 'pending')`)
	s.exec(`insert into inboxd.edits (lane_id, position, payload, actor, reason)
		select lane_id, position, 'other', 'ada', 'wrong amount' from inboxd.inbox where event_id = 'pending'`)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	find := func(id string) inbox.StoredEvent {
		e, err := s.store.Find(t.Context(), id)
		must(t, err)
		return *e
	}
	got := find("full")
	full.OccurredAt, full.Position, full.ReceivedAt = full.OccurredAt.UTC(), 1, got.ReceivedAt
	if want := (inbox.StoredEvent{Event: full, ProcessedAt: at, Attempts: 3}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if since := time.Since(got.ReceivedAt); since < 0 || since > time.Hour {
		t.Errorf("received %s ago", since)
	}
	if got := find("skipped"); got.ProcessedAt != at || got.SkippedAt != at || got.Attempts != 0 || got.Headers != nil || !got.Source.IsZero() {
		t.Errorf("skipped: %+v", got)
	}
	if got := find("pending"); !got.ProcessedAt.IsZero() || !got.SkippedAt.IsZero() || got.Attempts != 2 ||
		string(got.EditedPayload) != "other" || got.EditedAt.IsZero() || string(got.Payload) != `{"id":"pending"}` {
		t.Errorf("pending: %+v", got)
	}
	if got := find("newer"); got.Position != 4 || !got.EditedAt.IsZero() || got.EditedPayload != nil || got.Attempts != 0 {
		t.Errorf("newer: %+v", got)
	}
	for id := range unstorable {
		_, err := s.store.Find(t.Context(), id)
		if !errors.Is(err, inbox.ErrNotFound) {
			t.Errorf("%.10q: %v", id, err)
		}
	}
	if _, err := s.store.Find(t.Context(), "nobody"); !errors.Is(err, inbox.ErrNotFound) || !strings.Contains(err.Error(), `"nobody"`) {
		t.Error(err)
	}
}

// A lane is read in order, over pages and segments.
func TestLane(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var want []string
	for range 3 {
		all := events(fmt.Sprint("e", len(want)), 303, 3)
		s.put(all...)
		for _, e := range all {
			if e.AggregateID == "agg-1" {
				want = append(want, e.ID)
			}
		}
		s.openSegment()
	}
	for _, from := range []int64{-5, 0, 1, 2, 200, 201, 303, 304} {
		if got := s.read("agg-1", from); !slices.Equal(got, want[max(from, 1)-1:]) {
			t.Errorf("from %d: %d events, %v…", from, len(got), got[:min(3, len(got))])
		}
	}
	n := 0
	for _, err := range s.store.Lane(t.Context(), "agg-1", 0) {
		must(t, err)
		if n++; n == 5 {
			break
		}
	}
	for _, nobody := range []string{"nobody", "", "\x00"} {
		n = 0
		for _, err := range s.store.Lane(t.Context(), nobody, 0) {
			if n++; !errors.Is(err, inbox.ErrNotFound) {
				t.Error(err)
			}
		}
		if n != 1 {
			t.Errorf("%q: %d answers", nobody, n)
		}
	}
	s.exec(`drop table inboxd.inbox_1`) // retention
	if got := s.read("agg-1", 0); !slices.Equal(got, want[101:]) {
		t.Errorf("without the oldest segment: %d events", len(got))
	}
}

// What is stored while a lane is read is at its end.
func TestLaneGrowsWhileItIsRead(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("e1", "a"))
	n := 0
	for e, err := range s.store.Lane(t.Context(), "a", 0) {
		must(t, err)
		if n++; int64(n) != e.Position {
			t.Errorf("event %d has position %d", n, e.Position)
		}
		if n < 5 {
			s.put(event(fmt.Sprint("e", n+1), "a"))
		}
	}
	if n != 5 {
		t.Errorf("read %d events", n)
	}
}

// Pages are bounded by their bytes, and an event that is larger comes alone.
func TestLanePagesAreBounded(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for i := range 7 {
		e := event(fmt.Sprint("e", i), "a")
		if i > 0 && i < 6 {
			e.Payload = bytes.Repeat([]byte{byte(i)}, 1000)
		}
		s.put(e)
	}
	const page = `select string_agg(event_id, ' ' order by position) from inboxd.lane_events($1, $2, $3, $4)`
	lane := one[int64](t, s.pool, `select lane_id from inboxd.lanes`)
	for _, test := range []struct {
		first, page, bytes int
		want               string
	}{
		{1, 200, 2500, "e0 e1 e2 e3"}, {5, 200, 2500, "e4 e5 e6"}, {3, 200, 1, "e2"}, {3, 200, 1000, "e2"}, {3, 200, 1001, "e2 e3"}, {2, 2, 1 << 20, "e1 e2"},
	} {
		if got := one[string](t, s.pool, page, lane, test.first, test.page, test.bytes); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
	s.put(inbox.Event{ID: "huge", AggregateID: "b", Type: "Paid", Payload: make([]byte, 5<<20)},
		inbox.Event{ID: "huge too", AggregateID: "b", Type: "Paid", Payload: make([]byte, 5<<20)}, event("small", "b"))
	if got := s.read("b", 0); !slices.Equal(got, []string{"huge", "huge too", "small"}) {
		t.Errorf("read %v", got)
	}
}

func TestCountLanes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	count := func(want inbox.LaneCounts) {
		t.Helper()
		got, err := s.store.CountLanes(t.Context())
		must(t, err)
		if got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
	}
	count(inbox.LaneCounts{})
	s.put(events("e", 40, 20)...)
	count(inbox.LaneCounts{Ready: 20})
	s.exec(`update inboxd.lanes set cursor = 2 where aggregate_id in ('agg-0', 'agg-1', 'agg-2')`)
	count(inbox.LaneCounts{Ready: 17, Idle: 3}) // nobody has noted yet that they are done
	s.exec(`update inboxd.aggregates set pending = false where aggregate_id = 'agg-0'`)
	count(inbox.LaneCounts{Ready: 17, Idle: 3})
	s.exec(`update inboxd.lanes set state = case
			when aggregate_id in ('agg-3', 'agg-4') then 'stuck' when aggregate_id = 'agg-5' then 'waiting'
			when aggregate_id in ('agg-6', 'agg-7', 'agg-8', 'agg-2') then 'paused' else 'backoff' end,
		next_attempt_at = case when aggregate_id = 'agg-9' then now() - interval '1 s' when aggregate_id = 'agg-10' then now() + interval '1 h' end
		where aggregate_id in ('agg-2', 'agg-3', 'agg-4', 'agg-5', 'agg-6', 'agg-7', 'agg-8', 'agg-9', 'agg-10')`)
	s.exec(`update inboxd.aggregates set parked = true where aggregate_id in ('agg-3', 'agg-5', 'agg-10')`)
	want := inbox.LaneCounts{Ready: 9, Idle: 2, Stuck: 2, Waiting: 1, Paused: 4, Backoff: 2}
	count(want)
	// Processes say what they run: of that counts what can run, in those that live.
	s.exec(`insert into inboxd.processes (name, seen_at, running)
		select p.name, clock_timestamp() - p.ago::interval, array(select lane_id from inboxd.lanes where aggregate_id = any(p.running))
		from (values ('alive', '1 s', array['agg-0', 'agg-3', 'agg-9', 'agg-10', 'agg-11']),
			('alive, too', '1 s', array['agg-11', 'agg-12']), ('dead', '1 h', array['agg-13'])) p(name, ago, running)`)
	want.Ready, want.Backoff, want.Running = 7, 1, 3
	count(want)
}

// Counting looks at what the states need, however many events and idle lanes
// there are: of an idle lane, at an entry of one index.
func TestReadingDoesNotGrow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, table := range []string{"aggregates", "lanes", "inbox_1"} {
		s.exec(`alter table inboxd.` + table + ` set (autovacuum_enabled = off)`)
	}
	s.put(event("measured", "measured"))
	s.fill(20_000)
	s.exec(`update inboxd.lanes l set cursor = a.last_position from inboxd.aggregates a
		where a.lane_id = l.lane_id and a.aggregate_id ~ '^busy' and a.aggregate_id <> 'busy-7'`)
	s.exec(`update inboxd.aggregates set pending = false where aggregate_id ~ '^busy' and aggregate_id <> 'busy-7'`)
	s.exec(`vacuum inboxd.lanes, inboxd.aggregates`)
	conn := s.connect()
	for call, tuples := range map[string]int{
		`select * from inboxd.find_event('bulk-busy-500-20')`:                                                                       60,
		`select * from inboxd.lane_events((select lane_id from inboxd.aggregates where aggregate_id = 'busy-500'), 11, 5, 1000000)`: 100,
		`select * from inboxd.lane_counts()`:                                                                                        11_001 + 10_000 + 100,
	} {
		for range 7 {
			measure(t, conn, call)
		}
		got := measure(t, conn, call)
		t.Logf("%+v %s", got, call)
		if got.tuples > tuples || got.buffers > 200+tuples/10 {
			t.Errorf("%s costs %+v, want at most %d tuples", call, got, tuples)
		}
	}
}
