package inboxtest

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inboxd/inboxd/ordering"
)

// held is how long lanes still have to wait that failed under RunDue, by aggregate.
// The database's clock goes on while a test runs, so that a short backoff would be
// over at some time; these waits shorten by Advance alone.
type held struct {
	mu    sync.Mutex
	waits map[string]time.Duration
}

// farAway keeps lanes from being due while RunDue runs.
const farAway = 1_000_000 * time.Hour

func (h *held) set(aggregate string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waits == nil {
		h.waits = map[string]time.Duration{}
	}
	h.waits[aggregate] = wait
}

func (h *held) drop(aggregate string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waits, aggregate)
}

func (h *held) wait(aggregate string) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	wait, ok := h.waits[aggregate]
	return wait, ok
}

func (h *held) aggregates() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.waits))
}

// pass has time pass. Lanes that are due then are no longer held.
func (h *held) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for aggregate := range h.waits {
		if h.waits[aggregate] -= d; h.waits[aggregate] <= 0 {
			delete(h.waits, aggregate)
		}
	}
}

func (h *held) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.waits)
}

// holdSQL sets when a lane is due that still is in the backoff. By the unique
// constraint on aggregates, and the primary key of lanes.
const holdSQL = `
update {schema}.lanes set next_attempt_at = clock_timestamp() + $2::interval
where lane_id = (select a.lane_id from {schema}.aggregates a where a.aggregate_id = $1) and state = 'backoff'`

// hold writes the waits of all held lanes to the database, with more on top. A
// lane that is in no backoff any more, because an operator has changed it, is
// held no longer.
func (k *Kit) hold(more time.Duration) {
	k.t.Helper()
	for _, aggregate := range k.held.aggregates() {
		if wait, ok := k.held.wait(aggregate); ok {
			if err := k.holdLane(aggregate, wait+more); err != nil {
				k.t.Fatalf("hold the lane of %s: %v", aggregate, err)
			}
		}
	}
}

func (k *Kit) holdLane(aggregate string, wait time.Duration) error {
	ctx, cancel := k.context()
	defer cancel()
	tag, err := k.side.Exec(ctx, k.in(holdSQL), aggregate, wait)
	if err == nil && tag.RowsAffected() == 0 {
		k.held.drop(aggregate)
	}
	return err
}

// holdHook holds a lane when it fails, before the worker that ran it goes on.
type holdHook struct{ k *Kit }

// Failed is called after the failure was committed.
func (h holdHook) Failed(f ordering.Failure) {
	if f.Message.AggregateID == "" || f.After <= 0 {
		return
	}
	h.k.held.set(f.Message.AggregateID, f.After)
	if err := h.k.holdLane(f.Message.AggregateID, f.After+farAway); err != nil {
		h.k.t.Errorf("hold the lane of %s: %v", f.Message.AggregateID, err)
	}
}
