package admin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/admin"
)

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

// until waits for a condition in the database.
func (s *stage) until(sql string, args ...any) {
	s.t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !one[bool](s, sql, args...) {
		select {
		case <-deadline:
			s.t.Fatalf("never came true: %s", sql)
		case <-tick.C:
		}
	}
}

const bothWait = `select count(*) = 2 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`

// A handler that runs is waited for no longer than a second: then the change is
// recorded, once, and made when the handler is done.
func TestAChangeOfARunningLaneIsRecorded(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"lanes", "aggregates"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			s := every(t)
			unlock := s.lock(table, "backoff")
			began := time.Now()
			change, err := s.skip(ada, "backoff", "backoff/Paid-1")
			must(t, err)
			if took := time.Since(began); took < 900*time.Millisecond || took > 20*time.Second {
				t.Errorf("recorded after %s", took)
			}
			equal(t, fmt.Sprint(change.Status, " ", *change.EventID), "recorded backoff/Paid-1")
			equal(t, one[int](s, `select count(*) from inboxd.audit`), 0)
			d, err := s.Lane(t.Context(), "backoff")
			must(t, err)
			equal(t, len(d.Changes), 1)
			equal(t, fmt.Sprint(d.Changes[0].Action, " ", *d.Changes[0].EventID, " ", *d.Changes[0].Reason), "skip backoff/Paid-1 the account is there now")
			_, err = s.skip(admin.By{Actor: "bob", Reason: "too"}, "backoff", "backoff/Paid-1")
			isRefused(t, err)
			equal(t, err, `the lane of "backoff" has a skip by `+d.Changes[0].Actor+` already, which is made when the running handler ends`)
			unlock()

			// Whoever changes the lane next finds it made.
			_, err = s.apply(admin.Pause, ada, "backoff")
			must(t, err)
			equal(t, one[string](s, `select string_agg(action, ' ' order by id) from inboxd.audit`), "skip pause")
			equal(t, one[int](s, `select cursor from inboxd.lanes where aggregate_id = 'backoff'`), 1)
			equal(t, one[int](s, `select count(*) from inboxd.changes`), 0)
		})
	}
}

// Two operators have seen the same stuck lane, and both press the button before
// either is done.
func TestOfTwoOperatorsOneWins(t *testing.T) {
	t.Parallel()
	for _, second := range []admin.Action{admin.Retry, admin.Skip} {
		t.Run(string(second), func(t *testing.T) {
			t.Parallel()
			s := every(t)
			unlock := s.lock("lanes", "stuck")
			type answer struct {
				change admin.Change
				err    error
			}
			answers := make(chan answer, 2)
			for actor, c := range map[string]admin.Action{"ada": admin.Retry, "bob": second} {
				go func() {
					change, err := s.Apply(context.Background(), c, admin.By{Actor: actor, Reason: "x"}, admin.Target{AggregateID: "stuck", EventID: "stuck/Paid-1"})
					answers <- answer{change, err}
				}()
			}
			s.until(bothWait)
			unlock()
			winner, loser := <-answers, <-answers
			if winner.err != nil {
				winner, loser = loser, winner
			}
			must(t, winner.err)
			who := one[string](s, `select action || ' by ' || actor from inboxd.audit`) // exactly one row
			equal(t, fmt.Sprint(winner.change.Status, loser.change.Status), "donerefused")
			equal(t, loser.err, `the lane of "stuck" was changed by somebody else meanwhile: `+who)
			isRefused(t, loser.err)
		})
	}
}

// While an operator waits for the lane, what held the lock moves it.
func TestAChangeIsComparedUnderTheLock(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ change, want string }{
		"processed": {`update inboxd.lanes set cursor = cursor + 1 where aggregate_id = 'stuck'`, `the lane of "stuck" has moved on meanwhile: Paid stuck/Paid-1 was processed or skipped`},
		"paused":    {`update inboxd.lanes set state = 'paused', paused_by = 'bob', version = version + 1 where aggregate_id = 'stuck'`, `the lane of "stuck" has nothing to retry: it is paused by bob, and runs when it is resumed`},
		"released":  {`update inboxd.lanes set state = 'ready', version = version + 1 where aggregate_id = 'stuck'`, `the lane of "stuck" has nothing to retry: its head Paid stuck/Paid-1 is running`},
		"replayed":  {`update inboxd.lanes set generation = 1 where aggregate_id = 'stuck'`, `the lane of "stuck" was replayed meanwhile`},
		"failed":    {`update inboxd.lanes set attempts = 11, version = version + 1 where aggregate_id = 'stuck'`, ``},
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
				_, err := s.apply(admin.Retry, ada, "stuck")
				failed <- err
			}()
			s.until(strings.Replace(bothWait, "2", "1", 1))
			must(t, tx.Commit(t.Context()))
			err = <-failed
			if tc.want == "" {
				must(t, err) // its head ran once more, and is still the one that was meant
				return
			}
			equal(t, err, tc.want)
			isRefused(t, err)
		})
	}
}
