package admin_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/inboxd/inboxd/admin"
)

// replay runs a lane again from an event on.
func (s *stage) replay(by admin.By, aggregate, from string) (admin.Change, error) {
	s.t.Helper()
	plan, err := s.ReplayPlan(s.t.Context(), aggregate, from)
	must(s.t, err)
	return s.Replay(s.t.Context(), by, plan)
}

func (s *stage) effects(aggregate string) string {
	s.t.Helper()
	return one[string](s, `select coalesce(string_agg(position::text || case when replay then 'r' else '' end, ' ' order by n), '') from effects where aggregate_id = $1`, aggregate)
}

func TestReplayRunsALaneAgainInOrder(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, "order-1")
	s.put("Skipped", 1, "order-1")
	s.put("Flaky", 1, "order-1")
	s.run(1)
	equal(t, s.effects("order-1"), "1 2 3 5")

	plan, err := s.ReplayPlan(t.Context(), "order-1", "order-1/Paid-2")
	must(t, err)
	equal(t, fmt.Sprint(plan.From.EventType, plan.From.Position, plan.Last, plan.Events(), plan.Skipped), "Paid2 5 4 1")
	var would []string
	for e, err := range s.Replayed(t.Context(), plan) {
		must(t, err)
		would = append(would, fmt.Sprint(e.EventID, e.SkippedAt != nil))
	}
	equal(t, would, []string{"order-1/Paid-2false", "order-1/Paid-3false", "order-1/Skipped-1true", "order-1/Flaky-1false"})
	_, err = s.Replay(t.Context(), admin.By{Actor: "ada"}, plan)
	equal(t, err, "a replay needs a reason")

	change, err := s.Replay(t.Context(), ada, plan)
	must(t, err)
	equal(t, fmt.Sprint(change.Action, change.Status, *change.EventID), "replaydoneorder-1/Paid-2")
	s.put("Paid", 4, "order-1") // the new one is Paid-4; it waits behind
	d, err := s.Lane(t.Context(), "order-1")
	must(t, err)
	equal(t, fmt.Sprint(d.State, d.Pending, *d.Replay), "ready5 {2 5 1}")
	s.run(2)
	equal(t, s.effects("order-1"), "1 2 3 5 2r 3r 5r 6")
	d, err = s.Lane(t.Context(), "order-1")
	must(t, err)
	equal(t, fmt.Sprint(d.State, d.Replay), "idle<nil>")
	equal(t, fmt.Sprint(d.Audit[len(d.Audit)-2].Action, " ", *d.Audit[len(d.Audit)-2].EventID), "replay order-1/Paid-2") // its skip is behind it
	equal(t, s.violations(admin.VerifyOptions{}), []string{})
}

// A replay that fails is stuck like any other, and shows how far it came.
func TestAReplayThatFailsShowsHowFarItCame(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, "order-1")
	s.put("Broken", 1, "order-1")
	s.put("Paid", 5, "order-1")
	s.run(1)
	_, err := s.skip(ada, "order-1", "order-1/Broken-1")
	must(t, err)
	s.run(1)
	equal(t, s.effects("order-1"), "1 2 4 5 6")

	// The skip is undone by a replay, from its position.
	_, err = s.replay(ada, "order-1", "2")
	must(t, err)
	s.run(1)
	d, err := s.Lane(t.Context(), "order-1")
	must(t, err)
	equal(t, fmt.Sprint(d.State, " ", d.Head.EventID, *d.Replay), "stuck order-1/Broken-1{2 6 2}")
	_, err = s.ReplayPlan(t.Context(), "order-1", "order-1/Paid-4")
	isRefused(t, err)
	equal(t, err, `Paid order-1/Paid-4 of "order-1" has not been processed yet: it runs when its turn comes`)
	_, err = s.skip(ada, "order-1", "order-1/Broken-1")
	must(t, err)
	s.run(1)
	equal(t, s.effects("order-1"), "1 2 4 5 6 2r 4r 5r 6r")
	equal(t, s.violations(admin.VerifyOptions{}), []string{})
}

func TestReplaysThatCannotBe(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, "order-1", "order-2")
	s.run(1)
	s.exec(`delete from inboxd.inbox where aggregate_id = 'order-1' and position = 1`) // as retention does
	s.exec(`delete from inboxd.inbox where aggregate_id = 'order-2'`)
	for _, tc := range []struct {
		aggregate, from, want string
		kind                  error
	}{
		{"order-1", "1", `the event at position 1 of "order-1" is no longer kept: its retention has ended; the oldest that can run again is at position 2`, admin.ErrRefused},
		{"order-2", "1", `no event of "order-2" is kept any more, so that none can run again: their retention has ended`, admin.ErrRefused},
		{"order-1", "order-1/Paid-1", `there is no event "order-1/Paid-1" of "order-1" in the inbox: it never was one, or it is no longer kept`, admin.ErrNotFound},
		{"order-1", "4", `"order-1" has no event at position 4: its positions are 1 to 3`, admin.ErrNotFound},
		{"order-1", "-1", `"order-1" has no event at position -1: its positions are 1 to 3`, admin.ErrNotFound},
		{"order-1", "\x00", `there is no event "\x00" of "order-1" in the inbox: it never was one, or it is no longer kept`, admin.ErrNotFound},
		{"order-3", "1", `there is no aggregate "order-3": no event of it was ever stored`, admin.ErrNotFound},
	} {
		_, err := s.ReplayPlan(t.Context(), tc.aggregate, tc.from)
		if equal(t, err, tc.want); !errors.Is(err, tc.kind) {
			t.Errorf("%v is not %v", err, tc.kind)
		}
	}
	// It was there when the plan was made.
	plan, err := s.ReplayPlan(t.Context(), "order-1", "2")
	must(t, err)
	s.exec(`delete from inboxd.inbox where position = 2`)
	_, err = s.Replay(t.Context(), ada, plan)
	isRefused(t, err)
	equal(t, err, `the event to replay the lane of "order-1" from is no longer in the inbox`)
}

// Of two operators who replay a lane one does; a lane that moves on meanwhile is
// no hindrance.
func TestReplayCompares(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, "order-1")
	s.run(1)
	plan, err := s.ReplayPlan(t.Context(), "order-1", "1")
	must(t, err)
	s.put("Paid", 5, "order-1")
	s.run(1)
	_, err = s.Replay(t.Context(), ada, plan)
	must(t, err)
	_, err = s.Replay(t.Context(), admin.By{Actor: "bob", Reason: "x"}, plan)
	isRefused(t, err)
	equal(t, err, `the lane of "order-1" was changed by somebody else meanwhile: replay by `+one[string](s, `select actor from inboxd.audit`))
	s.run(1)
	equal(t, s.effects("order-1"), "1 2 3 4 5 1r 2r 3r 4r 5r")
}

func TestReplayOfARunningLaneIsRecorded(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, "order-1")
	s.run(1)
	unlock := s.lock("lanes", "order-1")
	change, err := s.replay(ada, "order-1", "2")
	must(t, err)
	equal(t, string(change.Status), "recorded")
	d, err := s.Lane(t.Context(), "order-1")
	must(t, err)
	equal(t, *d.Changes[0].FromPosition, 2)
	unlock()
	_, err = s.ReplayPlan(t.Context(), "order-1", "1") // it makes what was recorded
	must(t, err)
	s.run(1)
	equal(t, s.effects("order-1"), "1 2 3 2r 3r")
}
