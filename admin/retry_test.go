package admin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/admin"
)

var ada = admin.By{Actor: "ada", Reason: "the account is there now"}

func target(names ...string) []admin.Target {
	targets := make([]admin.Target, len(names))
	for i, name := range names {
		targets[i].AggregateID = name
	}
	return targets
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
	done, err := s.Retry(t.Context(), ada, target("order-1")...)
	must(t, err)
	equal(t, done, []admin.Retried{{AggregateID: "order-1", EventID: "order-1/Broken-1", EventType: "Broken"}})
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
	_, err := s.Retry(t.Context(), admin.By{}, target("order-1")...)
	must(t, err)
	s.run(1)
	equal(t, one[int](s, `select count(*) from effects`), 2)
	equal(t, one[bool](s, `select actor = session_user and reason is null from inboxd.audit`), true)
}

func TestRetryRefusesWhatHasNothingToRetry(t *testing.T) {
	t.Parallel()
	s := every(t)
	for name, want := range map[string]string{
		"idle":    `the lane of "idle" has nothing to retry: every event of it was processed or skipped`,
		"ready":   `the lane of "ready" has nothing to retry: it is not held, its head Paid ready/Paid-1 runs as soon as a worker is free`,
		"running": `the lane of "running" has nothing to retry: its head Paid running/Paid-1 is running`,
		"paused":  `the lane of "paused" has nothing to retry: it is paused, and runs when it is resumed`,
		"waiting": `the lane of "waiting" has nothing to retry: it waits for the next event of its sequence`,
	} {
		_, err := s.Retry(t.Context(), ada, target(name)...)
		var refusal *admin.RefusedError
		if !errors.As(err, &refusal) || !errors.Is(err, admin.ErrRefused) || errors.Is(err, admin.ErrNotFound) {
			t.Fatalf("%s: %v", name, err)
		}
		equal(t, refusal.Message, want)
		equal(t, refusal.AggregateID, name)
	}
	_, err := s.Retry(t.Context(), ada, admin.Target{AggregateID: "stuck", EventID: "stuck/Paid-0"})
	equal(t, err, `the lane of "stuck" has moved on: its head is Paid stuck/Paid-1, no longer stuck/Paid-0`)
	equal(t, one[int](s, `select count(*) from inboxd.audit`), 0)

	done, err := s.Retry(t.Context(), ada, append(target("nobody", "stuck", "idle"), admin.Target{AggregateID: "old", EventID: "old/Paid-1"})...)
	equal(t, len(done), 2)
	if !errors.Is(err, admin.ErrRefused) || !errors.Is(err, admin.ErrNotFound) {
		t.Error(err)
	}
}

// lock takes the row lock of a table's row in a session of its own, as a
// running handler or a store does, until the answer is called.
func (s *stage) lock(table, aggregate string) (unlock func()) {
	s.t.Helper()
	conn := s.connect()
	tx, err := conn.Begin(context.Background())
	must(s.t, err)
	_, err = tx.Exec(context.Background(), `select 1 from inboxd.`+table+` where aggregate_id = $1 for update`, aggregate)
	must(s.t, err)
	return func() { must(s.t, tx.Rollback(context.Background())) }
}

func TestRetryWaitsForALockedLaneForASecond(t *testing.T) {
	t.Parallel()
	s := every(t)
	for table, want := range map[string]string{
		"lanes":      `the lane of "stuck" could not be changed: for 1s its handler ran, or somebody else was changing it`,
		"aggregates": `the lane of "stuck" could not be changed: for 1s somebody was storing events of it`,
	} {
		unlock := s.lock(table, "stuck")
		began := time.Now()
		_, err := s.Retry(t.Context(), ada, target("stuck")...)
		if took := time.Since(began); took < 900*time.Millisecond || took > 10*time.Second {
			t.Errorf("refused after %s", took)
		}
		equal(t, err, want)
		if !errors.Is(err, admin.ErrRefused) {
			t.Error("not refused")
		}
		unlock()
	}
	equal(t, one[int](s, `select count(*) from inboxd.audit`), 0)
	_, err := s.Retry(t.Context(), ada, target("stuck")...)
	must(t, err)
}

// until waits for a condition in the database.
func (s *stage) until(sql string) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !one[bool](s, sql) {
		select {
		case <-deadline:
			s.t.Fatalf("never came true: %s", sql)
		case <-tick.C:
		}
	}
}

const bothWait = `select count(*) = 2 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`

// Two operators have seen the same stuck lane, and both press the button before
// either is done.
func TestOfTwoOperatorsOneWins(t *testing.T) {
	t.Parallel()
	s := every(t)
	unlock := s.lock("lanes", "stuck")
	type answer struct {
		done []admin.Retried
		err  error
	}
	answers := make(chan answer, 2)
	for _, actor := range []string{"ada", "bob"} {
		go func() {
			done, err := s.Retry(context.Background(), admin.By{Actor: actor}, target("stuck")...)
			answers <- answer{done, err}
		}()
	}
	s.until(bothWait)
	unlock()
	one1, one2 := <-answers, <-answers
	if len(one1.done) < len(one2.done) {
		one1, one2 = one2, one1
	}
	must(t, one1.err)
	equal(t, fmt.Sprint(len(one1.done), len(one2.done)), "1 0")
	winner := one[string](s, `select actor from inboxd.audit`) // exactly one row
	equal(t, one2.err, `the lane of "stuck" was changed by somebody else meanwhile: retry by `+winner)
	if !errors.Is(one2.err, admin.ErrRefused) {
		t.Error("not refused")
	}
}

// While an operator waits for the lane, what held the lock moves it.
func TestRetryIsRefusedWhenTheLaneMovesUnderIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ change, want string }{
		"processed": {`update inboxd.lanes set cursor = cursor + 1 where aggregate_id = 'stuck'`, `the lane of "stuck" has moved on meanwhile: Paid stuck/Paid-1 was processed or skipped`},
		"paused":    {`update inboxd.lanes set state = 'paused' where aggregate_id = 'stuck'`, `the lane of "stuck" changed meanwhile: it was stuck and is paused now`},
		"changed":   {`update inboxd.lanes set version = version + 1 where aggregate_id = 'stuck'`, `the lane of "stuck" changed meanwhile: its head ran once more, or somebody else changed it`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := every(t)
			conn := s.connect()
			tx, err := conn.Begin(t.Context())
			must(t, err)
			_, err = tx.Exec(t.Context(), tc.change)
			must(t, err)
			failed := make(chan error, 1)
			go func() {
				_, err := s.Retry(context.Background(), ada, target("stuck")...)
				failed <- err
			}()
			s.until(strings.Replace(bothWait, "2", "1", 1))
			must(t, tx.Commit(t.Context()))
			err = <-failed
			equal(t, err, tc.want)
			if !errors.Is(err, admin.ErrRefused) {
				t.Error("not refused")
			}
		})
	}
}

// A change does not depend on the isolation that the database has by default.
func TestRetryUnderAnotherDefaultIsolation(t *testing.T) {
	t.Parallel()
	s := every(t)
	conn := s.connect()
	_, err := conn.Exec(t.Context(), `set default_transaction_isolation = 'serializable'; set default_transaction_read_only = on`)
	must(t, err)
	_, err = admin.New(conn, "").Retry(t.Context(), admin.By{Actor: "a\x00\xffb"}, target("stuck")...)
	must(t, err)
	equal(t, one[bool](s, `select actor = session_user || '/a' || chr(65533) || chr(65533) || 'b' from inboxd.audit`), true)
}
