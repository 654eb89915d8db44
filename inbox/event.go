package inbox

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxName is the longest event id, aggregate id, event type or name of a consumer
// that can be stored, in bytes. It keeps every index entry well under a third of a page.
const MaxName = 1024

// Header is one header of a record or an event. Names may repeat and values
// may be any bytes; both are kept as they came, in their order.
type Header struct {
	Name  string
	Value []byte
}

// Source says where in Kafka a record stood. The zero Source means that the
// event did not come from Kafka.
type Source struct {
	Topic     string
	Partition int32
	Offset    int64
}

// IsZero reports whether the event did not come from Kafka.
func (s Source) IsZero() bool { return s.Topic == "" }

// Record is what a broker delivered, before anything was understood of it.
type Record struct {
	Key     []byte // nil: the record has no key
	Value   []byte // nil: a tombstone; empty is not nil
	Headers []Header
	Source  Source
	Time    time.Time // the record's own time
}

// Event is one row of the inbox: a record that was understood.
type Event struct {
	// ID identifies the event for ever: a second event with the same ID is a duplicate.
	ID string
	// AggregateID names the aggregate within which the event is ordered.
	AggregateID string
	// Type chooses the handler.
	Type string
	// Sequence is the producer's own number within the aggregate, if it gave one.
	Sequence *int64
	// Payload is kept byte for byte. Nil and empty are the same.
	Payload []byte
	// Headers are kept byte for byte, in order.
	Headers []Header
	// Source is where the event came from; zero if not from Kafka.
	Source Source
	// OccurredAt is the producer's time; zero means that it gave none, and the
	// time of storing is taken.
	OccurredAt time.Time

	// Position is the event's place in its lane, dense and starting at 1. The
	// database gives it; it is ignored when the event is stored.
	Position int64
	// ReceivedAt is the database's clock when the event was stored; it is
	// ignored when the event is stored.
	ReceivedAt time.Time
}

// Validate says in a sentence what keeps the event from being stored, or nil. Its
// errors are ErrInvalid.
func (e *Event) Validate() error {
	if err := checkName("event_id", e.ID); err != nil {
		return err
	}
	if err := checkName("aggregate_id", e.AggregateID); err != nil {
		return err
	}
	if err := checkName("event_type", e.Type); err != nil {
		return err
	}
	if e.Source.IsZero() {
		return nil
	}
	return checkName("topic", e.Source.Topic)
}

// ErrInvalid is in every error about something that can never be stored as it
// is: an event or the name of a consumer that is empty, too long or no text, or
// a Store that was made wrongly. Trying again does not help.
var ErrInvalid = errors.New("invalid")

// invalid is an ErrInvalid whose text is the sentence alone.
type invalid struct{ sentence string }

func (e *invalid) Error() string        { return e.sentence }
func (e *invalid) Is(target error) bool { return target == ErrInvalid }

func checkName(field, v string) error {
	switch {
	case v == "":
		return &invalid{field + " is empty"}
	case len(v) > MaxName:
		return &invalid{fmt.Sprintf("%s has %d bytes, more than the %d that can be stored", field, len(v), MaxName)}
	case strings.IndexByte(v, 0) >= 0:
		return &invalid{field + " holds a NUL byte"}
	case !utf8.ValidString(v):
		return &invalid{field + " is not valid UTF-8"}
	}
	return nil
}
