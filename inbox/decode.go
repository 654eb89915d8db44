package inbox

import (
	"errors"
	"fmt"
)

// Decoder turns a record into an event. It must be safe for concurrent use.
// An error of type *Refusal sends the record to quarantine; ErrIgnored drops
// it, counted. Any other error is taken for a Refusal with the reason
// "undecodable".
type Decoder interface {
	Decode(Record) (Event, error)
}

// ErrIgnored is returned by a Decoder for a record that the configuration says
// to pass over: it is counted as ignored and neither stored nor quarantined.
var ErrIgnored = errors.New("ignored by configuration")

// Refusal is why a record could not become an event.
type Refusal struct {
	// Reason is a short stable word to group by: "not-json", "no-event-id", …
	Reason string
	// Detail is a sentence for people. It never holds payload.
	Detail string
}

// Error is the reason and the detail.
func (r *Refusal) Error() string { return r.Reason + ": " + r.Detail }

// Refuse makes a Refusal.
func Refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...)}
}
