package bench

import (
	"context"
	"fmt"

	"github.com/inboxd/inboxd/inbox"
)

// group is some accounts that get equally many events.
type group struct {
	from, to int   // account-<from> to account-<to-1>
	fed      int64 // events that each of them got
}

func (g *group) size() int { return g.to - g.from }

func accountID(a int) string { return fmt.Sprintf("account-%d", a) }

// eventID is unique and, like a UUID, in no order.
func eventID(a int, n int64) string {
	id := (uint64(a)<<40 | uint64(n)) * 0x9e3779b97f4a7c15
	return fmt.Sprintf("%016x-%016x", id, id*0xbf58476d1ce4e5b9)
}

// put is how many events are stored at once.
const put = 1000

// feed stores perLane more events for each of the group's accounts. The accounts
// take turns, as they do in a topic.
func (s *stage) feed(ctx context.Context, g *group, eventType string, perLane int) error {
	parts := max(1, min(4, g.size()/put))
	err := parallel(ctx, parts, func(ctx context.Context, part int) error {
		from, to := g.from+g.size()*part/parts, g.from+g.size()*(part+1)/parts
		return feedTo(ctx, s.store, from, to, g.fed, eventType, perLane)
	})
	if err != nil {
		return fmt.Errorf("store events: %w", err)
	}
	g.fed += int64(perLane)
	return nil
}

// feedTo is feed for one part of the accounts, in the order of time.
func feedTo(ctx context.Context, store *inbox.Store, from, to int, fed int64, eventType string, perLane int) error {
	events := make([]inbox.Event, 0, put)
	for n := fed + 1; n <= fed+int64(perLane); n++ {
		for a := from; a < to; a++ {
			events = append(events, inbox.Event{
				ID: eventID(a, n), AggregateID: accountID(a), Type: eventType, Payload: payload(n),
			})
			if len(events) < put && (n < fed+int64(perLane) || a < to-1) {
				continue
			}
			if _, err := store.Put(ctx, events); err != nil {
				return err
			}
			events = events[:0]
		}
	}
	return nil
}
