package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/inboxd/inboxd/admin"
)

var ada = admin.By{Actor: "ada", Reason: "the account is there now"}

// apply changes the lane of an aggregate, whatever its head is.
func (s *stage) apply(c admin.Action, by admin.By, aggregate string) (admin.Change, error) {
	return s.Apply(context.Background(), c, by, admin.Target{AggregateID: aggregate})
}

// skip passes over a head.
func (s *stage) skip(by admin.By, aggregate, event string) (admin.Change, error) {
	return s.Apply(context.Background(), admin.Skip, by, admin.Target{AggregateID: aggregate, EventID: event})
}

func isRefused(t testing.TB, err error) {
	t.Helper()
	var refusal *admin.RefusedError
	if !errors.As(err, &refusal) || !errors.Is(err, admin.ErrRefused) || errors.Is(err, admin.ErrNotFound) {
		t.Errorf("%v is no refusal", err)
	}
}

func TestRetryPutsAStuckHeadBackToWork(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, "order-1")
	s.put("Broken", 1, "order-1")
	s.put("Flaky", 1, "order-1")
	s.run(1)
	listener := s.connect()
	_, err := listener.Exec(t.Context(), "listen inboxd_wake")
	must(t, err)
	done, err := s.apply(admin.Retry, ada, "order-1")
	must(t, err)
	b, err := json.Marshal(done)
	must(t, err)
	equal(t, string(b), `{"aggregate_id":"order-1","action":"retry","status":"done","event_id":"order-1/Broken-1","event_type":"Broken","detail":null,"trial":null}`)
	d, err := s.Lane(t.Context(), "order-1")
	must(t, err)
	equal(t, fmt.Sprint(d.State, " ", d.Attempts, d.Pending), "ready 0 2")
	equal(t, one[string](s, `select parked || ' ' || pending from inboxd.aggregates`), "false true")
	note, err := listener.WaitForNotification(t.Context())
	must(t, err)
	equal(t, note.Payload, one[string](s, `select lane_id::text from inboxd.lanes`))
	equal(t, len(d.Audit), 1)
	equal(t, fmt.Sprint(d.Audit[0].Actor, " ", d.Audit[0].Action, " ", *d.Audit[0].EventID, " ", *d.Audit[0].Reason, " ", string(d.Audit[0].Detail)),
		one[string](s, `select session_user::text`)+`/ada retry order-1/Broken-1 the account is there now {"state": "stuck", "attempts": 1, "fingerprint": "`+d.Error.Fingerprint+`"}`)
	equal(t, len(d.History), 2)

	s.run(1)
	d, err = s.Lane(t.Context(), "order-1")
	must(t, err)
	equal(t, fmt.Sprint(d.State, " ", d.Attempts), "stuck 1")
	equal(t, s.violations(admin.VerifyOptions{}), []string{})
}

func TestRetryOfABackoffRunsNow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, "order-1")
	s.hold(admin.Backoff, 1, "x", "f", "order-1")
	_, err := s.apply(admin.Retry, admin.By{}, "order-1")
	must(t, err)
	s.run(1)
	equal(t, one[int](s, `select count(*) from effects`), 2)
	equal(t, one[bool](s, `select actor = session_user and reason is null from inboxd.audit`), true)
}

// What makes no sense for a lane is refused, and changes nothing.
func TestChangesThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	s := every(t)
	for _, tc := range []struct {
		c          admin.Action
		name, want string
	}{
		{admin.Retry, "idle", `the lane of "idle" has nothing to retry: every event of it was processed or skipped`},
		{admin.Retry, "ready", `the lane of "ready" has nothing to retry: it is not held, its head Paid ready/Paid-1 runs as soon as a worker is free`},
		{admin.Retry, "running", `the lane of "running" has nothing to retry: its head Paid running/Paid-1 is running`},
		{admin.Retry, "paused", `the lane of "paused" has nothing to retry: it is paused by ada: migration, and runs when it is resumed`},
		{admin.Retry, "waiting", `the lane of "waiting" has nothing to retry: it waits for the next event of its sequence`},
		{admin.Pause, "paused", `the lane of "paused" is paused already by ada: migration`},
		{admin.Resume, "stuck", `the lane of "stuck" is not paused: it is stuck`},
	} {
		change, err := s.apply(tc.c, ada, tc.name)
		isRefused(t, err)
		equal(t, err, tc.want)
		equal(t, fmt.Sprint(change.Status, " ", *change.Detail), "refused "+tc.want)
	}
	_, err := s.skip(ada, "idle", "idle/Paid-2")
	equal(t, err, `the lane of "idle" has moved on: it has no unprocessed event, no longer idle/Paid-2`)
	_, err = s.Apply(t.Context(), admin.Retry, ada, admin.Target{AggregateID: "stuck", EventID: "stuck/Paid-0"})
	equal(t, err, `the lane of "stuck" has moved on: its head is Paid stuck/Paid-1, no longer stuck/Paid-0`)
	change, err := s.apply(admin.Pause, ada, "nobody")
	if equal(t, change.Status, admin.NotFound); !errors.Is(err, admin.ErrNotFound) {
		t.Error(err)
	}
	for want, f := range map[string]func() (admin.Change, error){
		"a skip needs a reason": func() (admin.Change, error) { return s.skip(admin.By{}, "stuck", "stuck/Paid-1") },
		"a skip needs the event to pass over, so that it never meets another one": func() (admin.Change, error) { return s.apply(admin.Skip, ada, "stuck") },
		"a replay begins at an event: use Admin.Replay":                           func() (admin.Change, error) { return s.apply(admin.Replay, ada, "stuck") },
		`there is no action "drop"`:                                               func() (admin.Change, error) { return s.apply("drop", ada, "stuck") },
	} {
		_, err := f()
		if equal(t, err, want); !errors.Is(err, admin.ErrInvalid) {
			t.Errorf("%v is no mistake of the caller", err)
		}
	}
	equal(t, one[int](s, `select count(*) from inboxd.audit`), 0)
}

func TestSkipPassesOverTheHeadInOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, "order-1")
	s.put("Broken", 1, "order-1")
	s.put("Flaky", 2, "order-1")
	s.run(1)
	change, err := s.skip(ada, "order-1", "order-1/Broken-1")
	must(t, err)
	equal(t, fmt.Sprint(change.Status, " ", *change.EventID, " ", *change.EventType), "done order-1/Broken-1 Broken")
	s.run(2)
	equal(t, one[string](s, `select string_agg(position::text, ' ' order by n) from effects`), "1 3 4")
	equal(t, one[bool](s, `select skipped_at is not null and processed_at = skipped_at from inboxd.events where event_id = 'order-1/Broken-1'`), true)
	equal(t, one[string](s, `select action || ' ' || event_id || ' ' || reason || ' ' || split_part(actor, '/', 2) from inboxd.audit`),
		"skip order-1/Broken-1 the account is there now ada")
	equal(t, s.violations(admin.VerifyOptions{}), []string{})
}

// A pause keeps what the lane was, and a skip keeps the pause.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, "idle")
	s.run(1)
	s.put("Paid", 3, "stuck", "backoff", "ready")
	s.hold(admin.Stuck, 5, "x", "f", "stuck")
	s.hold(admin.Backoff, 5, "x", "f", "backoff")
	for name, want := range map[string]string{"stuck": "stuck", "backoff": "backoff", "ready": "ready", "idle": "idle"} {
		_, err := s.apply(admin.Pause, admin.By{Actor: "bob", Reason: "audit"}, name)
		must(t, err)
		d, err := s.Lane(t.Context(), name)
		must(t, err)
		equal(t, fmt.Sprint(d.State, " ", *d.PausedReason), "paused audit")
		_, err = s.apply(admin.Resume, ada, name)
		must(t, err)
		d, err = s.Lane(t.Context(), name)
		must(t, err)
		equal(t, string(d.State), want)
	}
	_, err := s.apply(admin.Retry, ada, "backoff")
	must(t, err)
	_, err = s.apply(admin.Pause, ada, "stuck")
	must(t, err)
	_, err = s.skip(ada, "stuck", "stuck/Paid-1")
	must(t, err)
	s.run(1)
	d, err := s.Lane(t.Context(), "stuck")
	must(t, err)
	equal(t, fmt.Sprint(d.State, " ", d.Head.EventID), "paused stuck/Paid-2")
	_, err = s.apply(admin.Resume, ada, "stuck")
	must(t, err)
	s.run(1)
	equal(t, one[int](s, `select count(*) from effects where aggregate_id = 'stuck'`), 2)
	equal(t, s.violations(admin.VerifyOptions{AggregateID: "stuck"}), []string{})
}

// A lane that was stuck when it was paused has been stuck all the time.
func TestResumeOfAStuckLane(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, "order-1")
	s.hold(admin.Stuck, 180, "x", "f", "order-1")
	for _, sql := range []string{
		`select inboxd.change(lane_id, 'pause', null, null, 'ada', null) from inboxd.lanes where state = 'stuck'`,
		`select inboxd.change(lane_id, 'resume', null, null, 'ada', null) from inboxd.lanes where state = 'paused'`,
	} {
		s.exec(sql)
	}
	equal(t, one[int](s, `select count(*) from inboxd.lanes where state = 'stuck' and since <> error_at`), 0)
	equal(t, one[int](s, `select count(*) from inboxd.lanes where state = 'stuck' and since < now() - interval '2 h'`) > 0, true)
}

// Lanes that wait for a breaker say so, and a resume of one frees them all.
func TestLanesOfABreaker(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, "order-1", "order-2")
	s.exec(`select inboxd.trip(lane_id, 0, 'Paid', 'connection refused', 'f', '1 h') from inboxd.lanes`)
	s.exec(`update inboxd.aggregates set parked = true`)
	d, err := s.Lane(t.Context(), "order-1")
	must(t, err)
	equal(t, d.Sentence(), "paused for 0s by the breaker of Paid: connection refused; 2 events wait")
	n := 0
	for c, err := range s.ApplyAll(t.Context(), admin.Bulk{Action: admin.Resume, By: ada, Filter: admin.Filter{Type: "Paid"}}) {
		must(t, err)
		equal(t, string(c.Status), "done")
		n++
	}
	equal(t, n, 2)
	s.run(1)
	equal(t, one[int](s, `select count(*) from effects`), 4)

	// What was down is back just then: there is nothing left to do, and nothing
	// is wrong.
	s.put("Paid", 3, "order-1", "order-2")
	s.exec(`select inboxd.trip(lane_id, cursor, 'Paid', 'connection refused', 'f', '1 h') from inboxd.lanes`)
	a := admin.New(between{s.pool, func() {
		s.exec(`select inboxd.close_breaker('Paid', 'inboxd', 'a probe got through'), inboxd.go_on(10)`)
	}}, "")
	seen := map[admin.Status]int{}
	for c, err := range a.ApplyAll(t.Context(), admin.Bulk{Action: admin.Resume, By: ada, Filter: admin.Filter{State: admin.Paused}}) {
		must(t, err)
		seen[c.Status]++
	}
	equal(t, seen, map[admin.Status]int{admin.Done: 2})
}

// A change does not depend on the isolation that the database has by default.
func TestChangeUnderAnotherDefaultIsolation(t *testing.T) {
	t.Parallel()
	s := every(t)
	conn := s.connect()
	_, err := conn.Exec(t.Context(), `set default_transaction_isolation = 'serializable'; set default_transaction_read_only = on`)
	must(t, err)
	_, err = admin.New(conn, "").Apply(t.Context(), admin.Retry, admin.By{Actor: "a\x00\xffb"}, admin.Target{AggregateID: "stuck"})
	must(t, err)
	equal(t, one[bool](s, `select actor = session_user || '/a' || chr(65533) || chr(65533) || 'b' from inboxd.audit`), true)
}

// What was begun is ended, whatever becomes of the caller.
func TestAChangeIsNotCutShort(t *testing.T) {
	t.Parallel()
	s := every(t)
	ctx, cancel := context.WithCancel(t.Context())
	a := admin.New(between{s.pool, cancel}, "")
	change, err := a.Apply(ctx, admin.Retry, ada, admin.Target{AggregateID: "stuck"})
	must(t, err)
	equal(t, string(change.Status), "done")
	_, err = a.Apply(ctx, admin.Retry, ada, admin.Target{AggregateID: "old"})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
