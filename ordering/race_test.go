package ordering_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
)

// Each pair of steps that can meet, with one session stopped between two of its
// steps while the other goes on. The lanes are 1 and 2, of agg-0 and agg-1.

func TestClaimMeetsClaim(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, 2)
	a, b := s.session(1), s.session(2)
	one, two, three := a.load(1), a.load(2), a.load(3)
	a.beginClaim(one, two)
	b.begin()
	moved(t, b.claim(two, three))
	b.rollback()
	b.beginClaim(three)
	b.rollback()
	a.rollback()
	b.beginClaim(two, three)
	b.rollback()
}

// A claim says which lanes were not to be had, so that the others need not wait.
func TestClaimNamesTheLanesThatMoved(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, 2)
	a, b := s.session(1), s.session(2)
	one, two, three := a.load(1), a.load(2), a.load(3)
	a.beginClaim(two)
	b.begin()
	err := b.claim(one, two, three)
	moved(t, err)
	if got := detail(err); got != "2" {
		t.Errorf("the detail is %q, want lane 2", got)
	}
	b.rollback()
	a.rollback()
}

// A lane that failed meanwhile is not as it was: whoever read it before must not
// run it, for he believes that no attempt was used up and that it is not parked.
func TestClaimAfterAFailure(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	stale := b.load(1)
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.fail(l, in(0)))
	a.commit()
	a.exec(`update inboxd.aggregates set parked = true`) // as settle does while it backs off
	b.begin()
	if err := b.claim(stale); err == nil {
		t.Error("a lane that failed meanwhile is claimed as it was before")
		must(t, b.advance(stale, 1))
		b.commit()
		s.sound()
		return
	}
	b.rollback()
}

// The time of a backoff is not over: nobody claims the lane.
func TestClaimBeforeTheBackoffEnds(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a := s.session(1)
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.fail(l, in(time.Hour)))
	a.commit()
	l = a.load(1)
	if l.runnable {
		t.Error("load calls a lane runnable that backs off")
	}
	a.begin()
	moved(t, a.claim(l))
	a.rollback()
	if got := one[int](s, `select cardinality(lanes) from inboxd.due(0, 1, 10)`); got != 0 {
		t.Errorf("%d lanes are due, want none", got)
	}
}

// Settle holds the row, then an event comes: it is not forgotten.
func TestStoreMeetsSettle(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 1)
	a := s.session(1)
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	a.commit()
	a.begin()
	if got := a.settle(1); len(got.idle) != 1 {
		t.Fatalf("settle answers %+v, want that the lane is idle", got)
	}
	b := s.session(2)
	done := b.waiting(func() error { return b.storeOne("e", "agg-0") })
	a.commit()
	must(t, <-done)
	s.findable(1)
	s.sound()
}

func (c *session) storeOne(id, aggregate string) error {
	_, err := inbox.NewStore(c.conn, "").Put(context.Background(), []inbox.Event{{ID: id, AggregateID: aggregate, Type: "Paid"}})
	return err
}

// An event comes, then settle: it leaves the lane out, and finds it afterwards.
func TestSettleMeetsStore(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 1)
	a, b := s.session(1), s.session(2)
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	a.commit()
	b.begin()
	must(t, b.storeOne("e", "agg-0"))
	if got := a.settle(1); len(got.idle)+len(got.held)+len(got.runnable) != 0 {
		t.Errorf("settle answers %+v for a lane that is being stored to", got)
	}
	b.commit()
	if got := a.settle(1); len(got.runnable) != 1 {
		t.Errorf("settle answers %+v, want that the lane can run", got)
	}
	s.findable(1)
	s.sound()
}

// heldLane makes lane 1 back off, due at once, and parks it.
func (s *stage) heldLane(c *session) loaded {
	s.t.Helper()
	l := c.load(1)
	c.beginClaim(l)
	must(s.t, c.fail(l, in(0)))
	c.commit()
	c.exec(`update inboxd.aggregates set parked = true where lane_id = 1`)
	return c.load(1)
}

// A lane leaves its backoff, and settle still sees it back off.
func TestSettleMeetsTheEndOfABackoff(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := s.heldLane(a)
	a.beginClaim(l)
	// The lane's time is over, or it could not have been claimed. Settle must
	// stay out of the way however it reads the clock.
	b.begin()
	b.settle(1)
	done := a.waiting(func() error { return a.advance(l, 1) })
	b.commit()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	a.commit()
	s.findable(1)
	s.sound()
}

func TestTheEndOfABackoffMeetsSettle(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := s.heldLane(a)
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	if got := b.settle(1); len(got.idle)+len(got.held)+len(got.runnable) != 0 {
		t.Errorf("settle answers %+v for a lane whose row another session holds", got)
	}
	a.commit()
	s.findable(1)
	s.sound()
}

// A lane fails while settle looks: it sees it as it was, and it is not parked. It
// is found all the same, and the next settle parks it.
func TestSettleMeetsFail(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.fail(l, nil))
	if got := b.settle(1); len(got.runnable) != 1 {
		t.Errorf("settle answers %+v, want the lane as it was", got)
	}
	a.commit()
	s.findable(1)
	if got := b.settle(1); len(got.held) != 1 {
		t.Errorf("settle answers %+v, want that the lane is held", got)
	}
	if state, _, parked := s.lane(1); state != "stuck" || !parked {
		t.Errorf("the lane is %s, parked %v", state, parked)
	}
	s.sound()
}

// stuckLane makes lane 1 stuck.
func (s *stage) stuckLane(c *session) {
	s.t.Helper()
	l := c.load(1)
	c.beginClaim(l)
	must(s.t, c.fail(l, nil))
	c.commit()
}

const lockAndRelease = `select inboxd.change(1, 'retry', null, null, 'operator', null)`

// Settle is about to park a stuck lane, and an operator releases it.
func TestReleaseMeetsSettle(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	s.stuckLane(a)
	a.begin()
	a.settle(1)
	done := b.waiting(func() error { return b.try(lockAndRelease) })
	a.commit()
	must(t, <-done)
	s.findable(1)
	s.sound()
}

func TestSettleMeetsRelease(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	s.stuckLane(a)
	a.settle(1)
	b.begin()
	b.exec(lockAndRelease)
	if got := a.settle(1); len(got.idle)+len(got.held)+len(got.runnable) != 0 {
		t.Errorf("settle answers %+v for a lane that is being released", got)
	}
	b.commit()
	s.findable(1)
	if got := a.settle(1); len(got.runnable) != 1 {
		t.Errorf("settle answers %+v, want that the lane can run", got)
	}
	s.sound()
}

// An operator waits for a run that fails, and releases what it left.
func TestReleaseMeetsFail(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.fail(l, in(time.Hour)))
	released := make(chan bool, 1)
	done := b.waiting(func() error {
		ok, err := operatorRetry(b.conn, "agg-0")
		released <- ok
		return err
	})
	a.commit()
	must(t, <-done)
	if !<-released {
		t.Error("the lane that backs off could not be retried")
	}
	if got := b.load(1); !got.runnable || got.attempts != 0 {
		t.Errorf("after the retry: %+v", got)
	}
	s.findable(1)
	s.sound()
}

// An operator waits for a run that succeeds: nothing is left to retry.
func TestReleaseMeetsAdvance(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := s.heldLane(a)
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	done := b.waiting(func() error {
		ok, err := operatorRetry(b.conn, "agg-0")
		if ok {
			err = errors.New("a lane that is ready was retried")
		}
		return err
	})
	a.commit()
	must(t, <-done)
	s.findable(1)
	s.sound()
}

// An operator is releasing a lane: nobody claims it meanwhile, and nobody who
// read it before claims it afterwards.
func TestClaimMeetsRelease(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	stale := s.heldLane(a)
	b.begin()
	b.exec(lockAndRelease)
	a.begin()
	moved(t, a.claim(stale))
	a.rollback()
	b.commit()
	a.begin()
	moved(t, a.claim(stale))
	a.rollback()
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	a.commit()
	s.sound()
}

// Whoever counts an attempt beforehand waits for nobody, and counts nothing for
// a lane that another session runs or has run.
func TestCarefulMeetsClaim(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := a.load(1)
	a.beginClaim(l)
	if _, ok := b.beginCareful(l); ok {
		t.Error("an attempt was counted for a lane that another session runs")
	}
	must(t, a.advance(l, 1))
	a.commit()
	if _, ok := b.beginCareful(l); ok {
		t.Error("an attempt was counted for an event that is done")
	}
	s.sound()
}

// Two processes count an attempt beforehand, one after the other; the one that
// comes too late to run it takes back what it counted, and nothing of what the
// other counted. Else an event that kills its processes goes on for as long as
// there are two of them.
func TestTakingBackMeetsACarefulRun(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	late, _ := a.beginCareful(a.load(1))
	l, ok := b.beginCareful(b.load(1))
	if !ok {
		t.Fatal("the second process could not count its attempt")
	}
	b.beginClaim(l)
	a.begin()
	moved(t, a.claim(late))
	a.rollback()
	done := make(chan error, 1)
	go func() { done <- a.takeBack(late) }()
	b.dies() // in the attempt
	must(t, <-done)
	if got := s.session(3).load(1); got.crashes != 1 {
		t.Errorf("%d attempts are counted for the process that died, want 1", got.crashes)
	}
	if n := one[int](s, `select count(*) from inboxd.failures where crash and process_id = 2`); n != 1 {
		t.Errorf("%d failures are on record for the process that died, want 1", n)
	}
}

// An attempt that ends well ends the counts of all processes; whoever takes his
// back afterwards changes nothing.
func TestTakingBackMeetsAdvance(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	late, _ := b.beginCareful(b.load(1))
	l, _ := a.beginCareful(a.load(1))
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	a.commit()
	b.begin()
	moved(t, b.claim(late))
	b.rollback()
	must(t, b.takeBack(late))
	if n := one[int](s, `select (select count(*) from inboxd.failures) + (select sum(crashes) from inboxd.lanes)`); n != 0 {
		t.Errorf("%d attempts are on record beside the one that ended well", n)
	}
	s.sound()
}

// Giving up goes by what is counted when it happens, not by what was read.
func TestGivingUpMeetsTakingBack(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := a.load(1)
	for range 3 {
		l, _ = a.beginCareful(l)
	}
	if got := b.load(1); got.crashes != 3 {
		t.Fatalf("%d attempts are counted, want 3", got.crashes)
	}
	must(t, a.takeBack(l))
	must(t, b.giveUp(l))
	if state, _, _ := s.lane(1); state != "ready" {
		t.Errorf("the lane is %s although nothing is counted any more", state)
	}
}

// A process that lives and has counted an attempt beforehand is still at it: no
// other counts one besides, or takes it for dead, or waits for it.
func TestCarefulMeetsACarefulRun(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	for range 2 {
		s.exec(`insert into inboxd.processes (name) values ('alive')`)
	}
	l, _ := a.beginCareful(a.load(1))
	if _, ok := b.beginCareful(b.load(1)); ok {
		t.Error("two processes that live have counted an attempt each")
	}
	must(t, b.giveUp(b.load(1)))
	if state, _, _ := s.lane(1); state != "ready" {
		t.Fatalf("the lane is %s, for an attempt that is under way", state)
	}
	a.beginClaim(l)
	b.exec(`set lock_timeout = '1s'`)
	if err := b.giveUp(b.load(1)); err != nil {
		t.Errorf("giving up waits for the attempt that is under way: %v", err)
	}
	a.rollback()
	s.exec(`update inboxd.processes set seen_at = clock_timestamp() - interval '5 s' where process_id = 1`)
	if _, ok := b.beginCareful(b.load(1)); !ok {
		t.Error("the process that was not heard of for 5 s keeps the lane")
	}
	s.sound()
}

// What an operator skips is skipped, whatever a processor knew of it.
func TestClaimMeetsSkip(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	stale := s.heldLane(a)
	b.begin()
	b.exec(`select 1 from inboxd.lanes where lane_id = 1 for update`)
	b.exec(`select inboxd.skip(0, 1, 0, 'operator', 'of no use')`)
	a.begin()
	moved(t, a.claim(stale))
	a.rollback()
	if got := a.settle(1); len(got.idle)+len(got.held)+len(got.runnable) != 0 {
		t.Errorf("settle answers %+v for a lane that is being skipped in", got)
	}
	b.commit()
	a.begin()
	moved(t, a.claim(stale))
	a.rollback()
	s.findable(1)
	s.sound()
}

// A skip of a head that is no longer the head is refused.
func TestSkipMeetsAdvance(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := a.load(1)
	a.beginClaim(l)
	must(t, a.advance(l, 1))
	b.begin()
	done := b.waiting(func() error {
		if err := b.try(`select 1 from inboxd.lanes where lane_id = 1 for update`); err != nil {
			return err
		}
		return b.try(`select inboxd.skip(0, 1, 0, 'operator', 'of no use')`)
	})
	a.commit()
	if err := <-done; state(err) != "IBX02" {
		t.Errorf("skip: %v, want IBX02", err)
	}
	b.rollback()
	s.sound()
}

// What is due is found by whoever looks, until it runs.
func TestDueMeetsClaim(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 3)
	a, b := s.session(1), s.session(2)
	l := s.heldLane(a)
	due := func() int {
		return one[int](s, `select cardinality(lanes) from inboxd.due(0, 1, 10)`)
	}
	b.beginClaim(l)
	if due() != 1 {
		t.Error("a lane that is due is hidden while it runs; if its process died, nobody would find it")
	}
	b.dies()
	if due() != 1 {
		t.Error("a lane that is due was lost with the process that ran it")
	}
	s.sound()
}
