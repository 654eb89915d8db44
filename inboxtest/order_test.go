package inboxtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/inboxd/inboxd/inbox"
)

// An interleaving has all events, those of each aggregate in their order; the seed
// chooses it.
func TestInterleaved(t *testing.T) {
	t.Parallel()
	var events []inbox.Event
	for i := range 12 {
		events = append(events, Event(fmt.Sprint("a", i%3), "Moved", nil, ID(fmt.Sprint(i))))
	}
	seen := map[string]bool{}
	for seed := range uint64(10) {
		got := interleaved(events, rand.New(rand.NewPCG(seed, 1)))
		lanes := map[string][]string{}
		for _, e := range got {
			lanes[e.AggregateID] = append(lanes[e.AggregateID], e.ID)
		}
		if len(got) != 12 || !slices.Equal(lanes["a1"], []string{"1", "4", "7", "10"}) {
			t.Errorf("seed %d: %v", seed, lanes)
		}
		if !slices.EqualFunc(got, interleaved(events, rand.New(rand.NewPCG(seed, 1))), func(a, b inbox.Event) bool { return a.ID == b.ID }) {
			t.Errorf("seed %d makes two interleavings", seed)
		}
		seen[fmt.Sprint(lanes, got)] = true
	}
	if len(seen) < 9 {
		t.Errorf("%d interleavings of 10 seeds", len(seen))
	}
}
