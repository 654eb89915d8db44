package ordering_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
)

func (s *stage) event(id, aggregate, eventType string) {
	s.t.Helper()
	_, err := s.store.Put(context.Background(), []inbox.Event{{ID: id, AggregateID: aggregate, Type: eventType}})
	must(s.t, err)
}

// An event that kills its process becomes stuck after the configured attempts;
// the lanes that were in flight beside it lose none.
func TestCrashLoopEnds(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for i := range 20 {
		s.event(fmt.Sprint("a", i), fmt.Sprint("agg-", i), "Paid")
	}
	for i := range 5 { // in the same turn as the killer, and not guilty
		s.event(fmt.Sprint("pre", i), "agg-killer", "Paid")
	}
	s.event("boom", "agg-killer", "Kill")
	s.event("after", "agg-killer", "Paid")
	for i := range 20 {
		s.event(fmt.Sprint("b", i), fmt.Sprint("agg-", i), "Paid")
	}
	deaths := 0
	for ; deaths < 10; deaths++ {
		c := s.child(t)
		if died := s.diesOrSticks(c); !died {
			break
		}
	}
	// The first death names nobody; from then on attempts are counted beforehand.
	if deaths < 3 || deaths > 4 {
		t.Errorf("%d processes died, want 3 or 4", deaths)
	}
	if got := one[string](s, `select aggregate_id || ' ' || attempts from inboxd.lanes where state = 'stuck'`); got != "agg-killer 3" {
		t.Errorf("stuck: %q, want the killer after 3 attempts", got)
	}
	s.until(`select count(*) = 45 from effects`)
	s.inOrder(45)
	if n := one[int](s, `select count(*) from inboxd.events where event_id not in ('boom', 'after') and attempts <> 1`); n != 0 {
		t.Errorf("%d events beside the killer lost attempts", n)
	}
	if n := one[int](s, `select count(*) from inboxd.lanes where crashes <> 0`); n != 0 {
		t.Errorf("%d lanes still count crashes", n)
	}
}

// diesOrSticks waits until the child died, or a lane is stuck.
func (s *stage) diesOrSticks(c *child) (died bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.ended:
			return true
		case <-tick.C:
			if one[bool](s, `select exists (select from inboxd.lanes where state = 'stuck')`) {
				return false
			}
		}
	}
}

// A process that is killed frees its lanes within seconds, and what it was
// running takes effect once.
func TestTakeOverAfterKill(t *testing.T) {
	t.Parallel()
	s := setup(t)
	first := s.child(t)
	first.says("ready")
	for i := range 12 {
		for n := range 3 {
			s.event(fmt.Sprintf("e-%d-%d", i, n), fmt.Sprint("agg-", i), "Slow")
		}
	}
	first.says("running")
	second := s.child(t)
	second.says("ready")
	first.says("running")
	first.signal(syscall.SIGKILL)
	killed := time.Now()
	before := one[int](s, `select count(*) from effects`)
	s.until(`select count(*) >= $1::int + 8 from effects`, before)
	if took := time.Since(killed); took > 5*time.Second+4*700*time.Millisecond {
		t.Errorf("the lanes of the killed process ran elsewhere after %s", took)
	}
	s.until(`select count(*) = 36 from effects`)
	s.inOrder(36)
}

// A process that freezes loses its lanes after the lease, and commits nothing
// when it wakes; then it goes on as a member.
func TestTakeOverAfterFreeze(t *testing.T) {
	t.Parallel()
	s := setup(t)
	frozen := s.child(t)
	frozen.says("ready")
	for n := range 3 {
		s.event(fmt.Sprint("e-", n), "agg-0", "Slow")
	}
	frozen.says("running e-0")
	frozen.signal(syscall.SIGSTOP)
	since := time.Now()
	other := s.child(t)
	other.says("ready")
	other.says("running e-0")
	if took := time.Since(since); took > 3*time.Second+5*time.Second {
		t.Errorf("the lane of the frozen process ran elsewhere after %s, want the lease of 3 s plus 5 s at most", took)
	}
	frozen.signal(syscall.SIGCONT)
	s.until(`select count(*) = 3 from effects`)
	s.inOrder(3)
	s.until(`select count(*) = 2 from inboxd.processes where seen_at > clock_timestamp() - interval '2 s'`)
	other.signal(syscall.SIGTERM)
	if err := <-other.ended; err != nil {
		t.Errorf("SIGTERM: %v, want a clean exit", err)
	}
	s.event("e-3", "agg-0", "Paid")
	s.until(`select count(*) = 4 from effects`)
	s.inOrder(4)
	frozen.signal(syscall.SIGTERM)
	if err := <-frozen.ended; err != nil {
		t.Errorf("SIGTERM: %v, want a clean exit", err)
	}
	if n := one[int](s, `select count(*) from inboxd.processes`); n != 0 {
		t.Errorf("%d processes are still registered", n)
	}
}

// Only a run that ended without a word leaves a trace; runs that succeeded or
// failed do not, and so cost no careful run.
func TestTrace(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, 2)
	s.put("Bad", 1, 1)
	reg := sqlRegistry(t, "Paid")
	must(t, handlers.SQL(reg, "Bad", "select 1/0"))
	s.run(reg, quick())
	const traced = `select count(distinct lane_id) from inboxd.load(array(select lane_id from inboxd.lanes), 1, 1) where traced`
	if n := one[int](s, traced); n != 0 {
		t.Errorf("%d lanes are traced after runs that ended properly", n)
	}
	at := s.session(0) // at work, and done without having written
	at.exec(`begin; select lane_id from inboxd.lanes where aggregate_id = 'agg-2' for update`)
	if n := one[int](s, traced); n != 0 {
		t.Errorf("%d lanes are traced while somebody is at work", n)
	}
	at.commit()
	if n := one[int](s, traced); n != 0 {
		t.Errorf("%d lanes are traced after somebody looked at one", n)
	}
	at.exec(`begin; select lane_id from inboxd.lanes where aggregate_id = 'agg-1' for update`)
	at.dies()
	if n := one[int](s, traced); n != 1 {
		t.Errorf("%d lanes are traced after a session died with one, want 1", n)
	}
	s.put("Paid2", 3, 1)
	s.run(sqlRegistry(t, "Paid2"), quick())
	if n := one[int](s, traced); n != 0 {
		t.Errorf("%d lanes are still traced after their next run", n)
	}
}
