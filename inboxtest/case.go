package inboxtest

import (
	"cmp"
	"slices"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/ordering"
)

// Case is what the checks run, over and over: handlers, and events for them.
//
// Each run has a database of its own and must end in the same state as one in
// which all goes well: the same rows in the business tables, and the same events
// processed, skipped and stuck.
type Case struct {
	// Options make the database of each run. Of Config only HandlerTimeout counts,
	// 5 s by default; the checks choose the rest.
	Options Options
	// Handlers makes the registry, as a process does when it starts: it is called
	// once for each process of each run, with that run's kit, and answers a new
	// registry each time. Required.
	Handlers func(k *Kit) *handlers.Registry
	// Events are stored in this order. Those without an ID get one. Required.
	Events []inbox.Event
	// State are queries whose rows are what has to be the same. Default: all
	// business tables, see Kit.State.
	State []string
	// Outside names tables that stand for the world outside of the transaction: a
	// fake of an API that keeps its calls there, say. A failed attempt may leave
	// something in them. In the end they have to hold the same, as all others. A
	// table outside of the schema public is named with its schema. Default: none.
	Outside []string
	// Stuck says that lanes may end up stuck when all goes well, because the case
	// is about that. Otherwise it fails the check. Default false.
	Stuck bool
	// Replay has CheckIdempotent also run all lanes again from their beginning,
	// which must change nothing. Inboxd gives an effect once; a replay asks for it
	// again, so only handlers that set what they write, or look at Event.Replay,
	// pass. Default false.
	Replay bool
	// NoFault names statements that the handler does without, on purpose, when
	// they fail: no fault is put there. Default: none.
	NoFault func(sql string) bool
	// Rounds is how many interleavings CheckOrder tries. Default 5.
	Rounds int
	// Seed chooses the interleavings, and where faults are. The same seed makes
	// the same choices. Default 1.
	Seed uint64
}

// Check runs all checks; CheckOrder only if the events are of several aggregates.
func Check(t T, c Case) {
	t.Helper()
	c = c.withDefaults(t)
	clean := c.clean(t)
	c.checkIdempotent(t, clean)
	c.checkEachFault(t, clean)
	if len(c.aggregates()) > 1 {
		c.checkOrder(t, clean)
	}
}

func (c Case) withDefaults(t T) Case {
	t.Helper()
	if c.Handlers == nil {
		t.Fatalf("Case.Handlers is nil; give a function that makes the registry")
	}
	if len(c.Events) == 0 {
		t.Fatalf("Case.Events is empty; give the handlers something to do")
	}
	if c.Rounds == 0 {
		c.Rounds = 5
	}
	if c.Seed == 0 {
		c.Seed = 1
	}
	n := 0
	c.Events = named(c.Events, &n)
	return c
}

// aggregates are those of the events, in order of appearance.
func (c Case) aggregates() []string {
	var names []string
	for _, e := range c.Events {
		if !slices.Contains(names, e.AggregateID) {
			names = append(names, e.AggregateID)
		}
	}
	return names
}

// calm is a configuration in which one event at a time runs, in a transaction of
// its own.
func (c Case) calm() ordering.Config {
	return ordering.Config{Workers: 1, Batch: 1, Group: 1, HandlerTimeout: c.handlerTimeout(),
		Retry: ordering.Retry{Attempts: attempts}}
}

// handlerTimeout ends handlers that wait for themselves, by way of another
// connection, sooner than ordering's default does.
func (c Case) handlerTimeout() time.Duration {
	return cmp.Or(c.Options.Config.HandlerTimeout, 5*time.Second)
}

// attempts is how often an event is tried that fails though all goes well.
const attempts = 4
