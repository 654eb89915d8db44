package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/admin"
)

// crowd is a database with 320 stuck lanes of two causes.
func crowd(t *testing.T) *stage {
	t.Helper()
	s := setup(t)
	s.put("Paid", 2, names(320)...)
	s.hold(admin.Stuck, 5, "x", "f1", names(250)...)
	s.hold(admin.Stuck, 4, "y", "f2", names(320)[250:]...)
	return s
}

// tally is how many lanes have each status, and the error that ended it.
func tally(ctx context.Context, s *stage, b admin.Bulk, each func(n int)) (map[admin.Status]int, error) {
	seen := map[admin.Status]int{}
	n := 0
	for c, err := range s.ApplyAll(ctx, b) {
		if err != nil {
			return seen, err
		}
		seen[c.Status]++
		if n++; each != nil {
			each(n)
		}
	}
	return seen, nil
}

func TestApplyAllGoesInBoundedTransactions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		f     admin.Filter
		total int
	}{{admin.Filter{Error: "f1"}, 250}, {admin.Filter{State: admin.Stuck, OlderThan: 270 * time.Second}, 250}, {admin.Filter{}, 320}, {admin.Filter{Limit: 130}, 130}} {
		for _, c := range []admin.Action{admin.Retry, admin.Skip, admin.Pause} {
			t.Run(fmt.Sprint(c, tc.f), func(t *testing.T) {
				t.Parallel()
				s := crowd(t)
				n, err := s.CountAffected(t.Context(), c, tc.f)
				must(t, err)
				if tc.f.Limit == 0 {
					equal(t, n, tc.total)
				}
				n = 0
				for _, err := range s.Affected(t.Context(), c, tc.f) {
					must(t, err)
					n++
				}
				equal(t, n, tc.total)
				seen, err := tally(t.Context(), s, admin.Bulk{Action: c, By: ada, Filter: tc.f}, func(n int) {
					if n > tc.total {
						t.Fatal("lanes are met again")
					}
					if n%100 == 1 && c != admin.Pause {
						// They fail again at once, and are not for this call any more.
						s.exec(`update inboxd.lanes set state = 'stuck', since = clock_timestamp() where state = 'ready'`)
					}
				})
				must(t, err)
				equal(t, seen, map[admin.Status]int{admin.Done: tc.total})
				equal(t, one[string](s, `select count(*) || ' ' || count(distinct aggregate_id) || ' ' || min(action) from inboxd.audit`),
					fmt.Sprint(tc.total, " ", tc.total, " ", c))
				// A transaction has an id of its own, and rows that it wrote.
				most := one[int](s, `select max(n) from (select count(*) as n from inboxd.audit group by xmin::text) x`)
				equal(t, most, 100)
				equal(t, one[int](s, `select count(*) from inboxd.lanes where version = 0`), 320-tc.total)
			})
		}
	}
}

// A lane that runs is recorded at once, one that another operator has is waited
// for, and one that has moved is left as it is.
func TestApplyAllOfLockedLanes(t *testing.T) {
	t.Parallel()
	s := crowd(t)
	s.put("Paid", 1, "free", "busy")
	s.exec(`update inboxd.lanes set state = 'backoff', next_attempt_at = now() where aggregate_id in ('free', 'busy')`)
	defer s.lock("lanes", "busy")()
	began := time.Now()
	seen, err := tally(t.Context(), s, admin.Bulk{Action: admin.Retry, By: ada, Filter: admin.Filter{State: admin.Backoff}}, nil)
	must(t, err)
	equal(t, seen, map[admin.Status]int{admin.Done: 1, admin.Recorded: 1})
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it waited for %s", took)
	}
	equal(t, one[string](s, `select action || ' ' || event_id || ' ' || actor || ' ' || reason from inboxd.changes`),
		"retry busy/Paid-1 "+one[string](s, `select session_user::text`)+"/ada the account is there now")

	// Somebody stores events of one of them for longer than a second.
	defer s.lock("aggregates", "order-10")()
	seen, err = tally(t.Context(), s, admin.Bulk{Action: admin.Retry, By: ada, Filter: admin.Filter{State: admin.Stuck, Limit: 150}}, nil)
	must(t, err)
	equal(t, seen, map[admin.Status]int{admin.Done: 149, admin.Recorded: 1})
}

// A stuck lane that is locked is another operator's, who will soon be done.
func TestApplyAllWaitsForAnotherOperator(t *testing.T) {
	t.Parallel()
	s := crowd(t)
	unlock := s.lock("lanes", "order-1")
	go func() {
		s.until(`select count(*) = 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`)
		unlock()
	}()
	seen, err := tally(t.Context(), s, admin.Bulk{Action: admin.Retry, By: ada, Filter: admin.Filter{Error: "f1"}}, nil)
	must(t, err)
	equal(t, seen, map[admin.Status]int{admin.Done: 250})
}

func TestApplyAllCanBeInterruptedAndGoesOn(t *testing.T) {
	t.Parallel()
	s := crowd(t)
	ctx, cancel := context.WithCancel(t.Context())
	b := admin.Bulk{Action: admin.Retry, By: ada}
	seen, err := tally(ctx, s, b, func(int) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	equal(t, seen, map[admin.Status]int{admin.Done: 100})
	seen, err = tally(t.Context(), s, b, nil)
	must(t, err)
	equal(t, seen, map[admin.Status]int{admin.Done: 220})
	equal(t, one[int](s, `select count(distinct aggregate_id) from inboxd.audit`), 320)
	for _, err := range s.ApplyAll(t.Context(), b) {
		t.Error("one is left", err)
	}
}

// between is a database on which something happens just before a transaction
// begins.
type between struct {
	*pgxpool.Pool
	happens func()
}

func (b between) BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error) {
	b.happens()
	return b.Pool.BeginTx(ctx, o)
}

// What changed after the page was read is left as it is.
func TestApplyAllComparesWithWhatItSaw(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, names(6)...)
	s.hold(admin.Stuck, 1, "x", "f", names(6)...)
	a := admin.New(between{s.pool, func() {
		s.exec(`update inboxd.lanes set version = 7, state = 'ready' where aggregate_id = 'order-1'`)
		s.exec(`insert into inboxd.audit (actor, action, aggregate_id) values ('bob', 'retry', 'order-1')`)
		s.exec(`update inboxd.lanes set cursor = 1 where aggregate_id = 'order-2'`)
		s.exec(`update inboxd.lanes set state = 'paused' where aggregate_id = 'order-3'`)
		s.exec(`update inboxd.lanes set version = 8 where aggregate_id = 'order-5'`) // it failed once more
	}}, "")
	var refusals []string
	for c, err := range a.ApplyAll(t.Context(), admin.Bulk{Action: admin.Retry, By: ada, Filter: admin.Filter{State: admin.Stuck}}) {
		must(t, err)
		if c.Status != admin.Done {
			refusals = append(refusals, *c.Detail)
		}
	}
	equal(t, refusals, []string{
		`the lane of "order-1" was changed by somebody else meanwhile: retry by bob`,
		`the lane of "order-2" has moved on meanwhile: Paid order-2/Paid-1 was processed or skipped`,
		`the lane of "order-3" has nothing to retry: it is paused, and runs when it is resumed`,
	})
	equal(t, one[string](s, `select string_agg(aggregate_id, ' ' order by aggregate_id) from inboxd.audit where actor <> 'bob'`), "order-0 order-4 order-5")
}

func TestBadBulksAreSentences(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for want, b := range map[string]admin.Bulk{
		"retry is for lanes that are stuck or backoff, not for those that are paused": {Action: admin.Retry, Filter: admin.Filter{State: admin.Paused}},
		`there is no action "replay" for many lanes`:                                  {Action: admin.Replay},
		"a skip needs a reason":                                 {Action: admin.Skip},
		"a pause needs a reason":                                {Action: admin.Pause},
		"-1 lanes cannot be retried first":                      {Action: admin.Retry, Canary: -1},
		"only a retry can try some lanes first":                 {Action: admin.Pause, By: ada, Canary: 1},
		"a wait of -1s makes no sense: it must not be negative": {Action: admin.Retry, CanaryWait: -time.Second},
		"the limit is -1, but must not be negative":             {Action: admin.Retry, Filter: admin.Filter{Limit: -1}},
	} {
		_, err := tally(t.Context(), s, b, nil)
		if equal(t, err, want); !errors.Is(err, admin.ErrInvalid) {
			t.Errorf("%v is no mistake of the caller", err)
		}
	}
}
