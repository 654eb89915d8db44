package inboxtest

import (
	"slices"
	"strings"

	"github.com/inboxd/inboxd/admin"
)

// AssertProcessed fails the test unless the events of the aggregate that were
// processed are these, in this order. It prints the history if they are not.
func (k *Kit) AssertProcessed(aggregate string, eventIDs ...string) {
	k.t.Helper()
	if got := k.Processed(aggregate); !slices.Equal(got, eventIDs) {
		k.t.Errorf("of %s %s were processed, want %s\n%s", aggregate, list(got), list(eventIDs), k.History(aggregate))
	}
}

// AssertAllDone fails the test unless every event is processed or skipped.
func (k *Kit) AssertAllDone() {
	k.t.Helper()
	if waiting := k.Waiting(); len(waiting) > 0 {
		k.t.Errorf("%s are not processed\n%s", list(waiting), k.History())
	}
}

// AssertStuck fails the test unless the aggregate's lane is stuck at the event,
// because of an error whose message holds the text.
func (k *Kit) AssertStuck(aggregate, eventID, text string) {
	k.t.Helper()
	lane := k.Lane(aggregate)
	switch {
	case lane.State != admin.Stuck:
		k.t.Errorf("the lane of %s is %s, want it stuck at %s\n%s", aggregate, lane.State, eventID, k.History(aggregate))
	case lane.Head == nil || lane.Head.EventID != eventID:
		k.t.Errorf("the lane of %s is not stuck at %s\n%s", aggregate, eventID, k.History(aggregate))
	case lane.Error == nil || !strings.Contains(lane.Error.Message, text):
		k.t.Errorf("the lane of %s is stuck at %s, but not because of %q\n%s", aggregate, eventID, text, k.History(aggregate))
	}
}

// AssertNoneStuck fails the test if a lane waits for a person.
func (k *Kit) AssertNoneStuck() {
	k.t.Helper()
	for _, lane := range k.Stuck() {
		k.t.Errorf("the lane of %s is stuck\n%s", lane.AggregateID, k.History(lane.AggregateID))
	}
}

// list writes names for people.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
