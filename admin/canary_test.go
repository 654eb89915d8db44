package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/ordering"
)

// serve runs processors until the end of the test, or until the answer is
// called.
func (s *stage) serve(processors int) (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, processors)
	for range processors {
		cfg := quick()
		cfg.UntilIdle = false
		p, err := ordering.New(s.pool, registry(s.t), cfg)
		must(s.t, err)
		go func() { ended <- p.Run(ctx) }()
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		for range processors {
			if err := <-ended; err != nil {
				s.t.Error(err)
			}
		}
	}
	s.t.Cleanup(stop)
	return stop
}

// releasable is a database with lanes that are stuck although their heads would
// pass now, but for those that are named.
func releasable(t *testing.T, broken ...string) *stage {
	t.Helper()
	s := setup(t)
	s.put("Broken", 1, broken...)
	s.put("Paid", 2, names(12)...)
	s.hold(admin.Stuck, 5, "x", "f", names(12)[:3]...) // they have waited longest
	s.hold(admin.Stuck, 4, "x", "f", names(12)[3:]...)
	return s
}

func TestCanariesThatSucceedAreFollowed(t *testing.T) {
	t.Parallel()
	s := releasable(t)
	s.serve(2)
	var first []string
	n := 0
	for c, err := range s.ApplyAll(t.Context(), admin.Bulk{Action: admin.Retry, By: ada, Canary: 3}) {
		must(t, err)
		if n++; n == 1 {
			equal(t, one[int](s, `select count(*) from inboxd.audit where action = 'retry'`), 3) // only these so far
		}
		if c.Trial != nil {
			first = append(first, fmt.Sprint(c.AggregateID, " ", c.Trial.Outcome))
		}
	}
	equal(t, n, 12)
	equal(t, first, []string{"order-0 succeeded", "order-1 succeeded", "order-2 succeeded"})
	s.until(`select count(*) = 24 from effects`)
}

func TestACanaryThatFailsStopsTheRest(t *testing.T) {
	t.Parallel()
	s := releasable(t, "order-1")
	s.serve(2)
	seen, err := tally(t.Context(), s, admin.Bulk{Action: admin.Retry, By: ada, Canary: 3}, nil)
	var canary *admin.CanaryError
	if !errors.As(err, &canary) || !errors.Is(err, admin.ErrRefused) {
		t.Fatal(err)
	}
	equal(t, err, "of 3 lanes retried first, 1 failed again; the others were left alone:\n  \"order-1\": no account 17")
	equal(t, seen, map[admin.Status]int{admin.Done: 3})
	for _, c := range canary.Lanes {
		if failed := c.AggregateID == "order-1"; (c.Trial.Outcome == admin.TrialFailed) != failed || (c.Trial.Error != nil) != failed {
			t.Errorf("%+v", c)
		}
	}
	equal(t, one[int](s, `select count(*) from inboxd.audit where action = 'retry'`), 3)
	equal(t, one[int](s, `select count(*) from inboxd.lanes where state = 'stuck'`), 10)
}

func TestCanariesThatNobodyRuns(t *testing.T) {
	t.Parallel()
	s := releasable(t)
	b := admin.Bulk{Action: admin.Retry, By: ada, Canary: 2, CanaryWait: 50 * time.Millisecond}
	_, err := tally(t.Context(), s, b, nil)
	equal(t, err, "of 2 lanes retried first, 2 had not run within 50ms; the others were left alone:\n  \"order-0\" has not run\n  \"order-1\" has not run")

	ctx, cancel := context.WithCancel(t.Context())
	b.CanaryWait = time.Hour
	a := admin.New(between{s.pool, func() { time.AfterFunc(20*time.Millisecond, cancel) }}, "")
	outcomes := ""
	for c, errOf := range a.ApplyAll(ctx, b) {
		if err = errOf; err == nil {
			outcomes += fmt.Sprint(c.Status, " ", c.Trial.Outcome, " ")
		}
	}
	equal(t, outcomes, "done open done open ")
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	equal(t, one[int](s, `select count(*) from inboxd.lanes where state = 'stuck'`), 8)

	// Nothing is left to follow, and nothing to begin with.
	b.Filter.Error = "none"
	_, err = tally(t.Context(), s, b, nil)
	must(t, err)
}

// While two processors run, operators skip, replay, pause, resume and release
// lanes; the order holds, and every event that was not skipped has its effect.
func TestOrderHoldsWhileOperatorsWork(t *testing.T) {
	t.Parallel()
	s := setup(t)
	lanes := names(40)
	s.put("Paid", 10, lanes...)
	s.put("Broken", 1, lanes[:20]...)
	s.serve(2)
	s.until(`select count(*) = 20 from inboxd.lanes where state = 'stuck'`)
	s.put("Flaky", 3, lanes...)
	s.put("Paid", 20, lanes...) // ten of them are new
	for i, name := range lanes[:20] {
		switch i % 4 {
		case 0, 1:
			_, err := s.skip(ada, name, name+"/Broken-1")
			must(t, err)
		case 2:
			_, err := s.apply(admin.Pause, ada, name)
			must(t, err)
			_, err = s.skip(ada, name, name+"/Broken-1")
			must(t, err)
		}
	}
	for _, name := range lanes[20:30] {
		_, err := s.replay(ada, name, "3")
		must(t, err)
		s.put("Paid", 25, name)
	}
	for range 3 {
		_, err := tally(t.Context(), s, admin.Bulk{Action: admin.Retry, By: ada}, nil)
		must(t, err)
	}
	_, err := tally(t.Context(), s, admin.Bulk{Action: admin.Resume, By: ada}, nil)
	must(t, err)
	_, err = tally(t.Context(), s, admin.Bulk{Action: admin.Skip, By: ada, Filter: admin.Filter{State: admin.Stuck}}, nil)
	must(t, err)
	s.until(`select count(*) = 0 from inboxd.changes`)
	for one[int](s, `select count(*) from inboxd.lanes where state = 'stuck'`) > 0 { // those that were being retried
		_, err = tally(t.Context(), s, admin.Bulk{Action: admin.Skip, By: ada, Filter: admin.Filter{State: admin.Stuck}}, nil)
		must(t, err)
	}
	s.until(`select bool_and(a.last_position = l.cursor and l.state = 'ready') from inboxd.lanes l join inboxd.aggregates a using (lane_id)`)
	equal(t, s.violations(admin.VerifyOptions{}), []string{})
	// Within a run or a replay an aggregate's effects are in order, none is
	// missing and none is there twice.
	equal(t, one[int](s, `select count(*) from (
		select position <= lag(position) over (partition by aggregate_id, replay order by n) as wrong from effects) x where wrong`), 0)
	equal(t, one[int](s, `select count(*) from inboxd.inbox i join inboxd.events e using (event_id) where e.skipped_at is null
		and not exists (select from effects f where f.event_id = i.event_id)`), 0)
	equal(t, one[int](s, `select count(*) from (select from effects where replay group by aggregate_id having min(position) = 3) x`), 10)
}
