package ordering

import (
	"fmt"

	"github.com/inboxd/inboxd/handlers"
)

// lane is what this process knows of a lane that it is about to run, runs, or
// just ran. The database has the truth: claim compares cursor and version with
// it under the lane's lock.
//
// The scheduler's mutex guards place, again, woken and helped; everything else belongs to
// whoever took the lane from the scheduler.
type lane struct {
	id     int64
	place  place
	again  bool // was told of new events while it ran
	woken  bool // by a notification, not by the sweep
	helped bool // of another process's share

	ran        bool // this process has held its lock
	loaded     bool // what follows was read from the database and still stands
	runnable   bool
	cursor     int64
	version    int32
	generation int32
	attempts   int // failed attempts of the head
	crashes    int // attempts of the head that began and never ended
	traced     bool
	carefulTo  int64 // events up to here run carefully
	parked     bool  // was backing off when it was loaded
	events     []event
	more       bool // the inbox may hold more events than were read

	failed  *failure // how the event at failed.position fared; to be recorded when it is the head
	alone   int      // so many turns not to share a transaction
	singles int      // so many events to run one by one, to find out which one fails
	lost    int      // connections lost in a row while it ran alone
	lostAt  int64    // turns and heartbeats of this process when the lane last lost its connection
	stale   bool     // begin_careful counted an attempt that an outage cut
	clashes int      // conflicts with other transactions in a row
	swept   bool     // found by the sweep rather than by a notification
	probe   bool     // its head runs although its type is paused, to find out
}

type event struct {
	handlers.Message
	segment int32
	large   bool // the payload is still to be fetched
}

// name says which event it is, for people.
func (e *event) name() string {
	return fmt.Sprintf("%s %s of aggregate %s", e.Type, e.ID, e.AggregateID)
}

type place int

const (
	queued  place = iota // waits for a worker
	running              // a worker has it
	left                 // has nothing to run, as far as is known; the settler looks again
)

// failure is a failed attempt that is still to be recorded: the transaction it
// happened in is gone.
type failure struct {
	position  int64
	attempt   int    // which attempt of the event it was
	eventType string // "" if the lane's events are not known
	err       error
}

// fail notes how an attempt of the event at the position ended.
func (l *lane) fail(position int64, err error) {
	attempt := 1
	if position == l.cursor+1 {
		attempt = l.attempts + 1
	}
	l.failed = &failure{position: position, attempt: attempt, err: err}
	if i := int(position - l.cursor - 1); i >= 0 && i < len(l.events) {
		l.failed.eventType = l.events[i].Type
	}
}

// recorded reports that the failure is on record already: the answer to its
// commit was lost, or another process failed at the event meanwhile.
func (l *lane) recorded() bool {
	return l.failed.position <= l.cursor || l.failed.position == l.cursor+1 && l.failed.attempt <= l.attempts
}

// head is the next event; the lane has one.
func (l *lane) head() *event { return &l.events[0] }

// forget drops what was read of the lane; the next turn reads it again.
func (l *lane) forget() {
	l.loaded = false
	l.events = nil
	l.more = false
}

// done takes the first n events off: they are committed.
func (l *lane) done(n int) {
	l.cursor = l.events[n-1].Position
	l.events = l.events[n:]
	l.attempts, l.crashes, l.lost = 0, 0, 0
	l.traced, l.parked = false, false
	l.singles = max(l.singles-n, 0)
	if len(l.events) == 0 {
		l.events = nil
	}
}
