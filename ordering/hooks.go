package ordering

import (
	"fmt"
	"time"

	"github.com/inboxd/inboxd/handlers"
)

// Hooks hear of what happens in this process. A hook implements those of the
// interfaces below that it wants. They are called by the goroutine that did it,
// after it was committed, several at a time: they must be quick and safe for
// concurrent use. A hook that panics is logged, and nothing else. For events
// that are stored see inbox.OnStored.
type (
	// StartedHook hears that a handler is about to be called, or, for queued
	// handlers, that their statements are about to be sent.
	StartedHook interface{ Started(Run) }
	// SucceededHook hears of events that are processed and committed.
	SucceededHook interface{ Succeeded(Run) }
	// FailedHook hears of an attempt that failed and will be made again.
	FailedHook interface{ Failed(Failure) }
	// StuckHook hears of a lane that became stuck.
	StuckHook interface{ Stuck(Failure) }
	// SkippedHook hears of an event that its handler passed over.
	SkippedHook interface{ Skipped(Failure) }
	// PausedHook hears of a lane that waits because its head's type was found
	// to be down by this very event.
	PausedHook interface{ Paused(Failure) }
	// SweptHook hears of lanes with work that no notification had told of.
	SweptHook interface{ Swept(lanes int) }
	// TakenOverHook hears of processes that were not heard of for the lease,
	// and how many of their sessions were ended.
	TakenOverHook interface {
		TakenOver(processes []int32, sessions int)
	}
)

// Run is events of one lane that run, or ran, in one transaction.
type Run struct {
	// Events are in order, and never empty. They must not be kept or changed.
	Events []*handlers.Message
	// Took is how long the transaction took, which may have held other lanes as
	// well; 0 before it.
	Took time.Duration
}

// Failure is an attempt that did not succeed.
type Failure struct {
	// Message is the event; its payload may be missing.
	Message handlers.Message
	// Err is why.
	Err error
	// Fingerprint is that of the cause; see inboxd errors list.
	Fingerprint string
	// Counted says that it used up an attempt.
	Counted bool
	// After is the time to the next attempt; 0 if there is none.
	After time.Duration
}

// hooks are the processor's, by what they want to hear.
type hooks struct {
	p         *Processor
	started   []StartedHook
	succeeded []SucceededHook
	failed    []FailedHook
	stuck     []StuckHook
	skipped   []SkippedHook
	paused    []PausedHook
	swept     []SweptHook
	takenOver []TakenOverHook
}

func (h *hooks) add(hook any) error {
	known := 0
	known += addHook(&h.started, hook)
	known += addHook(&h.succeeded, hook)
	known += addHook(&h.failed, hook)
	known += addHook(&h.stuck, hook)
	known += addHook(&h.skipped, hook)
	known += addHook(&h.paused, hook)
	known += addHook(&h.swept, hook)
	known += addHook(&h.takenOver, hook)
	if known == 0 {
		return fmt.Errorf("Hooks holds a %T, which implements none of the hooks' interfaces", hook)
	}
	return nil
}

func addHook[H any](list *[]H, hook any) int {
	if h, ok := hook.(H); ok {
		*list = append(*list, h)
		return 1
	}
	return 0
}

// tell calls the hooks of one kind.
func tell[H any](h *hooks, list []H, call func(H)) {
	for _, hook := range list {
		if err := protect(func() error { call(hook); return nil }); err != nil {
			h.p.log.Error("a hook panicked", "hook", fmt.Sprintf("%T", hook), "error", err.Error())
		}
	}
}

func (h *hooks) starts(messages []*handlers.Message) {
	tell(h, h.started, func(hook StartedHook) { hook.Started(Run{Events: messages}) })
}

// ran tells of what a turn committed, before its events are taken off.
func (h *hooks) ran(t *turn, took time.Duration) {
	if len(h.succeeded) == 0 {
		return
	}
	for _, plan := range t.plans {
		run := Run{Events: plan.lane.messages(plan.from, plan.n), Took: took}
		tell(h, h.succeeded, func(hook SucceededHook) { hook.Succeeded(run) })
	}
}

// fell tells of a failure that is on record.
func (h *hooks) fell(l *lane, f *failure, v verdict) {
	failure := Failure{Err: f.err, Counted: v.counted}
	if len(h.failed)+len(h.stuck)+len(h.skipped)+len(h.paused) == 0 {
		return
	}
	failure.Fingerprint = describe(f.err).fingerprint
	if len(l.events) > 0 && l.head().Position == f.position {
		failure.Message = l.head().Message
		failure.Message.Attempt = f.attempt
	}
	switch {
	case v.skip:
		tell(h, h.skipped, func(hook SkippedHook) { hook.Skipped(failure) })
	case v.pause:
		tell(h, h.paused, func(hook PausedHook) { hook.Paused(failure) })
	case v.stuck:
		tell(h, h.stuck, func(hook StuckHook) { hook.Stuck(failure) })
	case !v.later:
		failure.After = v.after
		tell(h, h.failed, func(hook FailedHook) { hook.Failed(failure) })
	}
}
