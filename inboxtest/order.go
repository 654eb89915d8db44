package inboxtest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/ordering"
)

// CheckOrder checks that it does not matter how the events of several aggregates
// are interleaved. In each of Case.Rounds rounds they arrive in another order,
// their order within each aggregate apart, in portions; two processes of several
// workers run them, many to a transaction or one by one; and in every other round
// statements fail at random. Each round must end like a run in which one event
// runs after the other, in the order of Case.Events.
//
// It finds handlers that count or look at the events of other aggregates as they
// come, and those that cannot do with the order of attempts in several processes.
// Case.Events must be of two aggregates at least.
func CheckOrder(t T, c Case) {
	t.Helper()
	c = c.withDefaults(t)
	if len(c.aggregates()) < 2 {
		t.Fatalf("CheckOrder needs events of two aggregates or more; of one there is no other order")
	}
	c.checkOrder(t, c.clean(t))
}

func (c Case) checkOrder(t T, clean *run) {
	t.Helper()
	for round := 1; round <= c.Rounds; round++ {
		name := fmt.Sprintf("another interleaving (seed %d, round %d)", c.Seed, round)
		plan := &randomFaults{faults: newFaults(c), seed: c.Seed + uint64(round)<<32,
			count: map[string]int{}, tries: map[string]int{}}
		if round%2 == 1 {
			r := c.fresh(t, name, noFaults{})
			r.shuffle(round)
			r.compare(clean)
			continue
		}
		r := c.fresh(t, name+", statements fail at random", plan)
		r.shuffle(round)
		if !plan.report(t, r) {
			r.compare(clean)
		}
	}
}

// shuffle runs the case in an order that the seed and the round choose.
func (r *run) shuffle(round int) {
	r.t.Helper()
	chance := rand.New(rand.NewPCG(r.c.Seed, uint64(round)))
	config := ordering.Config{
		Workers: 1 + chance.IntN(4), Batch: 1 + chance.IntN(16), Group: 1 + chance.IntN(4),
		Sweep: 50 * time.Millisecond, HandlerTimeout: r.c.handlerTimeout(),
		Retry: ordering.Retry{Attempts: attempts + maxRandom},
	}
	rest := interleaved(r.c.Events, chance)
	first := chance.IntN(len(rest))
	r.store(rest[:first]...)
	rest = rest[first:]
	processes := []*process{r.process(config), r.process(config)}
	for len(rest) > 0 {
		n := 1 + chance.IntN(len(rest))
		r.store(rest[:n]...)
		rest = rest[n:]
	}
	r.quiet(processes...)
}

// interleaved draws the events of each aggregate in their order, and the next
// aggregate at random.
func interleaved(events []inbox.Event, chance *rand.Rand) []inbox.Event {
	names, lanes := []string{}, map[string][]inbox.Event{}
	for _, e := range events {
		if lanes[e.AggregateID] == nil {
			names = append(names, e.AggregateID)
		}
		lanes[e.AggregateID] = append(lanes[e.AggregateID], e)
	}
	out := make([]inbox.Event, 0, len(events))
	for len(names) > 0 {
		i := chance.IntN(len(names))
		lane := lanes[names[i]]
		out = append(out, lane[0])
		if lanes[names[i]] = lane[1:]; len(lane) == 1 {
			names = append(names[:i], names[i+1:]...)
		}
	}
	return out
}
