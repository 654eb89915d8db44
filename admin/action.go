package admin

import (
	"fmt"
	"slices"
	"strings"
)

// Action is what an operator does to a lane.
type Action string

// The actions.
const (
	// Retry has the head of a lane that is stuck or backing off run again now,
	// its attempts counted from zero; what is stored of failed attempts stays.
	// Of a lane that waits because its event type is paused, it also ends that
	// pause, for every lane.
	Retry Action = "retry"
	// Skip passes over the head: it takes no effect, and its followers run. A
	// pause by a person stays. While the event is kept a replay undoes it.
	Skip Action = "skip"
	// Pause has a lane wait until it is resumed. What runs is finished before.
	Pause Action = "pause"
	// Resume ends a pause. The lane goes on as it was: one that was stuck is
	// stuck, one that was backing off waits for its next attempt.
	Resume Action = "resume"
	// Replay has a lane run again from an event on; see Admin.Replay.
	Replay Action = "replay"
)

// needsReason reports that nobody may do it without saying why: what was skipped,
// and what waits, has a reason on record.
func (c Action) needsReason() bool { return c == Skip || c == Pause || c == Replay }

// States are those of lanes that the action is for when many lanes are meant:
// Filter.State is one of them. Of them the first so many stand for an empty
// Filter.State.
func (c Action) States() (states []State, unasked int) {
	switch c {
	case Retry:
		return []State{Stuck, Backoff}, 2
	case Skip:
		return []State{Stuck, Backoff, Waiting, Paused}, 2
	case Pause:
		return []State{Stuck, Waiting, Backoff, Running, Ready, Idle}, 5
	case Resume:
		return []State{Paused}, 1
	}
	return nil, 0
}

// selection is which lanes the action is for, of those that a filter means.
func (c Action) selection(f Filter) (selection, error) {
	if err := f.validate(); err != nil {
		return selection{}, err
	}
	states, unasked := c.States()
	switch {
	case states == nil:
		return selection{}, invalid("there is no action %q for many lanes", string(c))
	case f.State == "":
		states = states[:unasked]
	case !slices.Contains(states, f.State):
		return selection{}, invalid("%s is for lanes that are %s, not for those that are %s", c, orWords(states), f.State)
	}
	return selection{Filter: f, states: states}, nil
}

// orWords joins states: "stuck or backoff".
func orWords(states []State) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Can says, with a RefusedError, why an action makes no sense for the lane as
// it was seen; nil: it does.
func (l *Lane) Can(c Action) error {
	switch c {
	case Retry:
		return l.canRetry()
	case Skip:
		if l.Head == nil {
			return refused(l.AggregateID, "the lane of %q has nothing to skip: every event of it was processed or skipped", l.AggregateID)
		}
	case Pause:
		if l.stored == Paused && l.PausedType == nil {
			return refused(l.AggregateID, "the lane of %q is paused already%s", l.AggregateID, l.pausedBy())
		}
	case Resume:
		if l.stored != Paused {
			return refused(l.AggregateID, "the lane of %q is not paused: it is %s", l.AggregateID, l.State)
		}
	case Replay: // its own questions are asked by ReplayPlan
	default:
		return invalid("there is no action %q", string(c))
	}
	return nil
}

func (l *Lane) canRetry() error {
	refuse := func(format string, args ...any) error {
		return refused(l.AggregateID, "the lane of %q has nothing to retry: %s", l.AggregateID, fmt.Sprintf(format, args...))
	}
	switch {
	case l.stored == Stuck, l.stored == Backoff, l.stored == Paused && l.PausedType != nil && l.Head != nil:
		return nil
	case l.State == Idle:
		return refuse("every event of it was processed or skipped")
	case l.State == Running:
		return refuse("its head %s is running", l.headWords())
	case l.State == Ready:
		return refuse("it is not held, its head %s runs as soon as a worker is free", l.headWords())
	case l.State == Paused:
		return refuse("it is paused%s, and runs when it is resumed", l.pausedBy())
	}
	return refuse("it waits for the next event of its sequence")
}

// pausedBy says who paused the lane and why: " by shop/ada: migration".
func (l *Lane) pausedBy() string {
	words := ""
	switch {
	case l.PausedType != nil:
		words = " by the breaker of " + *l.PausedType
	case l.PausedBy != nil:
		words = " by " + *l.PausedBy
	}
	if l.PausedReason != nil {
		words += ": " + firstLine(*l.PausedReason)
	}
	return words
}

func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}
