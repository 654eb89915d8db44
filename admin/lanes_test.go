package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox"
)

// busy says that a process runs the lanes, and was seen so many seconds ago.
func (s *stage) busy(seconds int, aggregates ...string) {
	s.t.Helper()
	s.exec(`insert into inboxd.processes (name, seen_at, running)
		select 'test', clock_timestamp() - $1 * interval '1 second', array_agg(lane_id)
		from inboxd.aggregates where aggregate_id = any($2)`, seconds, aggregates)
}

// every is a database with a lane in each state, named after it.
func every(t *testing.T) *stage {
	t.Helper()
	s := setup(t)
	s.put("Paid", 2, "idle")
	s.run(1)
	s.put("Paid", 3, "ready", "running", "due", "backoff", "waiting", "stuck", "old", "paused")
	s.hold(admin.Backoff, 2, "not now", "f1", "backoff", "due")
	s.exec(`update inboxd.lanes set next_attempt_at = now() - interval '1 minute' where aggregate_id = 'due'`)
	s.hold(admin.Waiting, 3, "", "", "waiting")
	s.hold(admin.Stuck, 4, "no account", "f2", "stuck")
	s.hold(admin.Stuck, 600, "no account", "f2", "old")
	s.hold(admin.Paused, 5, "", "", "paused")
	s.exec(`update inboxd.lanes set error_message = null, error_fingerprint = null, error_at = null,
		paused_by = 'ada', paused_reason = 'migration' where state in ('paused', 'waiting')`)
	s.busy(0, "running", "stuck", "backoff", "idle") // stale but for the first: it says so twice a second
	s.busy(60, "ready")
	return s
}

func TestListHasEachStateTheMostUrgentFirst(t *testing.T) {
	t.Parallel()
	s := every(t)
	equal(t, s.lanes(admin.Filter{}), []string{"old stuck", "stuck stuck", "paused paused", "waiting waiting",
		"backoff backoff", "due backoff", "running running", "ready ready"})
	equal(t, s.lanes(admin.Filter{State: admin.Idle}), []string{"idle idle"})
	s.busy(1, "due")
	equal(t, s.lanes(admin.Filter{State: admin.Running}), []string{"due running", "running running"})
	equal(t, s.lanes(admin.Filter{State: admin.Backoff}), []string{"backoff backoff"})
}

func TestFilters(t *testing.T) {
	t.Parallel()
	s := every(t)
	s.put("Shipped", 1, "shipped", "shipped2")
	s.exec(`update inboxd.inbox set received_at = now() - interval '5 hours' where aggregate_id = 'shipped'`)
	for _, tc := range []struct {
		f    admin.Filter
		want []string
	}{
		{admin.Filter{State: admin.Stuck}, []string{"old stuck", "stuck stuck"}},
		{admin.Filter{State: admin.Stuck, Limit: 1}, []string{"old stuck"}},
		{admin.Filter{Limit: 3}, []string{"old stuck", "stuck stuck", "paused paused"}},
		{admin.Filter{Error: "f2"}, []string{"old stuck", "stuck stuck"}},
		{admin.Filter{Error: "f1", State: admin.Stuck}, nil},
		{admin.Filter{Error: "f1", State: admin.Backoff}, []string{"backoff backoff", "due backoff"}},
		{admin.Filter{Error: "f2", OlderThan: time.Hour}, []string{"old stuck"}},
		{admin.Filter{Error: "f2", Type: "Paid"}, []string{"old stuck", "stuck stuck"}},
		{admin.Filter{Error: "f2", Type: "Shipped"}, nil},
		{admin.Filter{Error: "f'2\x00"}, nil},
		{admin.Filter{Type: "Shipped"}, []string{"shipped ready", "shipped2 ready"}},
		{admin.Filter{Type: "Shipped", State: admin.Idle}, nil},
		{admin.Filter{OlderThan: time.Hour}, []string{"old stuck", "shipped ready"}},
		{admin.Filter{OlderThan: time.Hour, State: admin.Ready}, []string{"shipped ready"}},
		{admin.Filter{OlderThan: time.Hour, State: admin.Idle}, nil},
		{admin.Filter{OlderThan: 6 * time.Hour}, []string{"old stuck"}},
	} {
		got := s.lanes(tc.f)
		equal(t, fmt.Sprint(tc.f, got), fmt.Sprint(tc.f, append([]string{}, tc.want...)))
		if tc.f.Limit > 0 {
			continue
		}
		n, err := s.CountLanes(t.Context(), tc.f)
		must(t, err)
		equal(t, fmt.Sprint("count ", tc.f, n), fmt.Sprint("count ", tc.f, len(tc.want)))
	}
}

func TestBadFiltersAreSentences(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for want, f := range map[string]admin.Filter{
		`there is no state "broken"; the states are stuck, paused`: {State: "broken"},
		`older than -1s makes no sense`:                            {OlderThan: -time.Second},
		`the limit is -1`:                                          {Limit: -1},
		`"x" is not where a page of lanes ended`:                   {After: "x"},
		`"idle.0.1" is where a page of another list ended`:         {After: "idle.0.1"},
	} {
		if _, err := s.LanesPage(t.Context(), f); !errors.Is(err, admin.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", f, err)
		}
	}
	n := 0
	for _, err := range s.Lanes(t.Context(), admin.Filter{State: "broken"}) {
		if n++; err == nil {
			t.Error("no error")
		}
	}
	equal(t, n, 1)
}

func TestPagesCoverEachLaneOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, names(1300)...)
	s.hold(admin.Stuck, 3, "x", "f", names(900)[300:]...)
	s.hold(admin.Stuck, 4, "x", "f", names(300)[150:]...) // two moments only, so that lanes tie
	for _, f := range []admin.Filter{{}, {State: admin.Stuck}, {State: admin.Ready}, {Error: "f"}, {Error: "f", State: admin.Stuck}, {Limit: 700}} {
		seen := map[string]int{}
		for _, l := range s.lanes(f) {
			seen[l]++
		}
		for l, n := range seen {
			if n != 1 {
				t.Errorf("%+v: %s is listed %d times", f, l, n)
			}
		}
		want, err := s.CountLanes(t.Context(), f)
		must(t, err)
		if f.Limit > 0 {
			want = f.Limit
		}
		equal(t, len(seen), want)
	}
	var pages []int
	f := admin.Filter{Limit: 400}
	for {
		page, err := s.LanesPage(t.Context(), f)
		must(t, err)
		pages = append(pages, len(page.Lanes))
		if f.After = page.Next; f.After == "" {
			break
		}
	}
	equal(t, pages, []int{400, 400, 400, 100})
	next, stop := iter.Pull2(s.Lanes(t.Context(), admin.Filter{})) // a reader may stop
	_, err, ok := next()
	must(t, err)
	equal(t, ok, true)
	stop()
}

func TestLaneJSON(t *testing.T) {
	t.Parallel()
	s := every(t)
	at := time.Date(2026, 1, 31, 12, 0, 0, 500_000, time.UTC)
	s.exec(`update inboxd.lanes set since = $1, error_at = $1, next_attempt_at = null where aggregate_id = 'stuck'`, at)
	s.exec(`update inboxd.inbox set received_at = $1`, at)
	for name, want := range map[string]string{
		"stuck": `{"aggregate_id":"stuck","state":"stuck","pending":3,"attempts":10,"next_attempt_at":null,"since":"2026-01-31T12:00:00.0005Z",` +
			`"head":{"event_id":"stuck/Paid-1","event_type":"Paid","position":1,"received_at":"2026-01-31T12:00:00.0005Z","edited_at":null},` +
			`"error":{"message":"no account","fingerprint":"f2","at":"2026-01-31T12:00:00.0005Z"},"paused_by":null,"paused_reason":null}`,
		"ready": `{"aggregate_id":"ready","state":"ready","pending":3,"attempts":0,"next_attempt_at":null,"since":"2026-01-31T12:00:00.0005Z",` +
			`"head":{"event_id":"ready/Paid-1","event_type":"Paid","position":1,"received_at":"2026-01-31T12:00:00.0005Z","edited_at":null},` +
			`"error":null,"paused_by":null,"paused_reason":null}`,
		"idle": `{"aggregate_id":"idle","state":"idle","pending":0,"attempts":0,"next_attempt_at":null,"since":null,"head":null,"error":null,"paused_by":null,"paused_reason":null}`,
	} {
		d, err := s.Lane(t.Context(), name)
		must(t, err)
		b, err := json.Marshal(d.Lane)
		must(t, err)
		equal(t, string(b), want)
	}
	d, err := s.Lane(t.Context(), "paused")
	must(t, err)
	equal(t, *d.PausedBy+" "+*d.PausedReason, "ada migration")
	d, err = s.Lane(t.Context(), "backoff")
	must(t, err)
	if d.NextAttemptAt == nil || d.NextAttemptAt.Location() != time.UTC {
		t.Errorf("next attempt at %v", d.NextAttemptAt)
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, "order-1")
	s.put("Skipped", 1, "order-1")
	s.put("Broken", 1, "order-1")
	s.put("Paid", 33, "order-1") // three of them are duplicates
	s.run(1)
	d, err := s.Lane(t.Context(), "order-1")
	must(t, err)
	equal(t, d.Pending, 31)
	equal(t, len(d.Events), 20)
	equal(t, d.Events[0].EventID, "order-1/Broken-1")
	equal(t, d.Events[0].ProcessedAt, (*time.Time)(nil))
	equal(t, d.Events[19].EventID, "order-1/Paid-22")
	var history []string
	for _, h := range d.History {
		history = append(history, fmt.Sprint(h.Outcome, " ", h.FirstPosition, h.LastPosition, h.Attempt != nil, h.Message != nil, h.ProcessID > 0))
	}
	equal(t, history, []string{"processed 1 2 false false true", "processed 3 3 false false true", "skipped 4 4 false false true", "failed 5 5 true true true"})
	failed := d.History[3]
	equal(t, fmt.Sprint(*failed.Message, " ", *failed.Attempt), "no account 17 1")
	if !strings.Contains(string(failed.Detail), `"types"`) {
		t.Errorf("detail %s", failed.Detail)
	}
	equal(t, len(d.Audit), 1)
	equal(t, fmt.Sprint(d.Audit[0].Actor, " ", d.Audit[0].Action, " ", *d.Audit[0].EventID, " ", *d.Audit[0].Reason), "handler skip order-1/Skipped-1 of no interest")
	b, err := json.Marshal(d)
	must(t, err)
	var object map[string]any
	must(t, json.Unmarshal(b, &object))
	for _, field := range []string{"aggregate_id", "head", "events", "history", "audit"} {
		if object[field] == nil {
			t.Errorf("%s is missing in %s", field, b)
		}
	}
	s.put("Paid", 1, "new")
	d, err = s.Lane(t.Context(), "new")
	must(t, err)
	b, err = json.Marshal(d)
	must(t, err)
	if !strings.HasSuffix(string(b), `"history":[],"audit":[],"changes":[],"replay":null}`) {
		t.Errorf("what is empty is no empty list: %s", b)
	}
}

func TestWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, "order-1")
	for want, f := range map[string]func() error{
		`there is no aggregate "order-2": no event of it was ever stored`: func() error { _, err := s.Lane(t.Context(), "order-2"); return err },
		"there is no aggregate \"\\x00\": no event":                       func() error { _, err := s.Lane(t.Context(), "\x00"); return err },
		`there is no aggregate "ORDER-1": no event`: func() error {
			_, err := s.Apply(t.Context(), admin.Retry, admin.By{}, admin.Target{AggregateID: "ORDER-1"})
			return err
		},
		`there is no aggregate "x": no event`:      func() error { _, err := s.Verify(t.Context(), admin.VerifyOptions{AggregateID: "x"}); return err },
		`there is no aggregate "y": no event`:      func() error { _, err := s.CountEvents(t.Context(), admin.EventFilter{AggregateID: "y"}); return err },
		`there is no event "e" in the inbox`:       func() error { _, err := s.Event(t.Context(), "e"); return err },
		"there is no event \"\\xff\" in the inbox": func() error { _, err := s.Event(t.Context(), "\xff"); return err },
		`there is no record 7 in quarantine`:       func() error { _, err := s.QuarantineRecord(t.Context(), 7); return err },
	} {
		err := f()
		if !errors.Is(err, admin.ErrNotFound) || errors.Is(err, admin.ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, err := range s.Events(t.Context(), admin.EventFilter{AggregateID: "z"}) {
		if !errors.Is(err, admin.ErrNotFound) {
			t.Error(err)
		}
	}
}

func TestOneConnectionIsEnough(t *testing.T) {
	t.Parallel()
	s := every(t)
	a := admin.New(s.connect(), inbox.DefaultSchema)
	for l, err := range a.Lanes(t.Context(), admin.Filter{}) {
		must(t, err)
		if _, err := a.Lane(t.Context(), l.AggregateID); err != nil {
			t.Error(err)
		}
		for _, err := range a.Events(t.Context(), admin.EventFilter{AggregateID: l.AggregateID}) {
			must(t, err)
			if _, err := a.Event(t.Context(), l.Head.EventID); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAnotherSchema(t *testing.T) {
	t.Parallel()
	s := setup(t)
	a := admin.New(s.pool, `odd "name"`)
	_, err := a.CountLanes(t.Context(), admin.Filter{})
	if err == nil || !strings.Contains(err.Error(), `odd "name"`) {
		t.Error(err)
	}
	var _ admin.DB = (*pgx.Conn)(nil)
}
