package ordering

import (
	"context"

	"github.com/inboxd/inboxd/handlers"
)

// A lane with a long queue has one transaction at a time, and each waits for the
// disk. A chain sends several of them together and has the server wait once, at
// the end: all but the last commit without waiting for their flush. The log is
// one sequence, so that none of them is durable without those before it, and
// nobody is told of any before the last is. What a crash of the server takes with it is
// run again: effects and cursor are lost together.
//
// Only queued handlers are chained. They do nothing between one statement and
// the next, so that nothing outside can depend on a commit that is not durable.

// chainMax is how many transactions are sent together, at most.
const chainMax = 32

// chain gathers further transactions for the lane of the turn, while what is
// known of it are queued events.
func (t *turn) chain(ctx context.Context) error {
	l, from := t.lanes[0], t.plans[0].n
	end := t.chained(l)
	for from < end && len(t.commits) < chainMax {
		queries, owners := len(t.batch.QueuedQueries), len(t.owners)
		t.begin(from)
		n, err := t.runLane(ctx, l, from)
		if err != nil {
			return err
		}
		if n == 0 { // its first event failed before anything was sent
			t.batch.QueuedQueries, t.owners = t.batch.QueuedQueries[:queries], t.owners[:owners]
			t.batch.QueuedQueries[queries-1].SQL = commit
			return nil
		}
		t.withoutFlush()
		t.plans = append(t.plans, plan{l, from, n})
		t.advance(t.plans[len(t.plans)-1:])
		from += n
	}
	return nil
}

// chained is up to which of its events the lane may be run by a chain; 0: by none.
func (t *turn) chained(l *lane) int {
	if t.p.cfg.FlushEach || len(t.lanes) > 1 || t.open ||
		l.alone > 0 || l.singles > 0 || l.failed != nil || l.probe {
		return 0
	}
	for i := range l.events {
		e := &l.events[i]
		entry := t.p.entries[e.Type]
		if entry == nil || entry.Form != handlers.Queued && entry.Form != handlers.Ignored ||
			entry.Isolation != "" || entry.OwnTransaction || e.large || t.p.breaker.isOpen(e.Type) {
			return i
		}
	}
	return len(l.events)
}

// withoutFlush has the transaction gathered last commit without waiting for the
// disk, since another one follows.
func (t *turn) withoutFlush() {
	for i := len(t.batch.QueuedQueries) - 1; i >= 0; i-- {
		if q := t.batch.QueuedQueries[i]; q.SQL == t.p.sql.advance || q.SQL == t.p.sql.take {
			q.Arguments[len(q.Arguments)-1] = false
			return
		}
	}
}
