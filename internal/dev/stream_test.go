package dev

import (
	"fmt"
	"reflect"
	"testing"
)

func take(s *Stream, n int) []*Event {
	events := make([]*Event, n)
	for i := range events {
		events[i] = s.Next()
	}
	return events
}

func TestAStreamIsTheSameForTheSameSeed(t *testing.T) {
	t.Parallel()
	a, b := take(NewStream(7, 500), 500), take(NewStream(7, 500), 500)
	if !reflect.DeepEqual(a, b) {
		t.Error("two streams of one seed differ")
	}
	if reflect.DeepEqual(a, take(NewStream(8, 500), 500)) {
		t.Error("two seeds give the same stream")
	}
}

// TestAStreamHasEverythingInIt also holds that versions count each aggregate's
// events, by which the order is judged.
func TestAStreamHasEverythingInIt(t *testing.T) {
	t.Parallel()
	for _, n := range []int{MinEvents, 100, 500, 999, 1000, 2000} {
		for seed := range uint64(10) {
			s := NewStream(seed, n)
			versions, ids, types := map[string]int{}, map[string]bool{}, map[string]int{}
			flaky, never := false, false
			for _, e := range take(s, n) {
				versions[e.Aggregate()]++
				if e.Version != versions[e.Aggregate()] || ids[e.EventID] {
					t.Fatalf("n %d, seed %d: %+v comes at the wrong time", n, seed, e)
				}
				ids[e.EventID] = true
				types[e.EventType]++
				flaky = flaky || e.FailTimes == 2
				never = never || e.PaymentID == fmt.Sprintf("payment-%03d", s.Never) && e.EventType == PaymentRefunded && e.Version == 3
			}
			if !flaky || !never || len(types) < 5 {
				t.Errorf("n %d, seed %d: flaky %t, never %t, types %v", n, seed, flaky, never, types)
			}
		}
	}
}
