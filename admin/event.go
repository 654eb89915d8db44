package admin

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// Event is one event of the inbox and what became of it. Its JSON is stable.
type Event struct {
	EventID     string    `json:"event_id"`
	AggregateID string    `json:"aggregate_id"`
	EventType   string    `json:"event_type"`
	Position    int64     `json:"position"`
	ReceivedAt  time.Time `json:"received_at"`
	// OccurredAt is nil if the year is not one that RFC 3339 can write.
	OccurredAt *time.Time `json:"occurred_at"`
	// ProcessedAt is nil while the event is unprocessed.
	ProcessedAt *time.Time `json:"processed_at"`
	// SkippedAt is set, beside ProcessedAt, if the event was passed over.
	SkippedAt *time.Time `json:"skipped_at"`
	// Attempts counts how often its handler was started, the successful run
	// included.
	Attempts int `json:"attempts"`
	// Source is where it came from; nil if not from Kafka.
	Source  *Source `json:"source"`
	Headers Headers `json:"headers"`
	// EditedAt is when an operator put another payload beside the original one,
	// with which the event runs, or ran; nil: nobody did.
	EditedAt *time.Time `json:"edited_at"`
}

// EventDetail is an event with its payload and its failures.
type EventDetail struct {
	Event
	// Payload is what the handler gets: as it came, or as it was edited. In JSON it
	// is "payload" if it is JSON itself, and "payload_base64" if not.
	Payload []byte
	// Original is the payload as it came, of an event that was edited. In JSON it
	// is "original_payload" or "original_payload_base64".
	Original []byte
	// Edit says who edited it, when and why; nil: nobody did.
	Edit *Edit
	// Failures are its latest failed attempts, at most 20, in the order of time.
	Failures []EventFailure
}

// Edit says who put another payload beside an event's own, when and why.
type Edit struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
}

// EventFailure is one attempt of an event that failed. Its JSON is stable.
type EventFailure struct {
	Attempt     int       `json:"attempt"`
	At          time.Time `json:"at"`
	Message     string    `json:"message"`
	Fingerprint string    `json:"fingerprint"`
	// Detail has what is known of: sqlstate, types (the Go types of the error and
	// of what it wraps), stack (of a panic). Nil: nothing is.
	Detail json.RawMessage `json:"detail"`
	// Died says that the attempt did not end: its process or its connection did.
	Died bool `json:"died"`
	// ProcessID is the process that ran it, and Process its name; nil: it is gone.
	ProcessID int32   `json:"process_id"`
	Process   *string `json:"process"`
}

// Source is a record's place in Kafka.
type Source struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Headers are kept in full. In JSON they are one object: of a repeated name the
// last value stands, and what is no text is in base64.
type Headers []inbox.Header

// MarshalJSON writes the object.
func (h Headers) MarshalJSON() ([]byte, error) { return unescaped(inbox.HeaderObject(h)) }

// MarshalJSON writes the event, its payload and its failures.
func (e EventDetail) MarshalJSON() ([]byte, error) {
	out := struct {
		Event
		Payload        json.RawMessage `json:"payload,omitempty"`
		Base64         *[]byte         `json:"payload_base64,omitempty"`
		Original       json.RawMessage `json:"original_payload,omitempty"`
		OriginalBase64 *[]byte         `json:"original_payload_base64,omitempty"`
		Edit           *Edit           `json:"edit"`
		Failures       []EventFailure  `json:"failures"`
	}{Event: e.Event, Edit: e.Edit, Failures: append([]EventFailure{}, e.Failures...)}
	out.Payload, out.Base64 = payloadJSON(e.Payload)
	if e.Edit != nil {
		out.Original, out.OriginalBase64 = payloadJSON(e.Original)
	}
	return unescaped(out)
}

// payloadJSON is a payload as JSON or, if it is none, as bytes.
func payloadJSON(payload []byte) (json.RawMessage, *[]byte) {
	if isJSON(payload) {
		return payload, nil
	}
	bytes := append([]byte{}, payload...) // nil would be null
	return nil, &bytes
}

func isJSON(b []byte) bool { return utf8.Valid(b) && json.Valid(b) }

// unescaped is json.Marshal that leaves "<" as it is.
func unescaped(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// eventColumnsSQL is of the view events, e. Times that RFC 3339 cannot write
// are null.
const eventColumnsSQL = `e.event_id, e.aggregate_id, e.event_type, e.position, e.received_at,
	case when e.occurred_at >= '0001-01-01 UTC' and e.occurred_at < '10000-01-01 UTC' then e.occurred_at end,
	e.processed_at, e.skipped_at, e.attempts,
	e.source_topic, e.source_partition, e.source_offset, e.headers, e.edited_at`

// scanEvent reads a row of eventColumnsSQL, and further columns into more.
func scanEvent(row pgx.Row, more ...any) (Event, error) {
	var e Event
	var topic *string
	var partition *int32
	var offset *int64
	var headers []byte
	dest := []any{&e.EventID, &e.AggregateID, &e.EventType, &e.Position, &e.ReceivedAt,
		&e.OccurredAt, &e.ProcessedAt, &e.SkippedAt, &e.Attempts, &topic, &partition, &offset, &headers, &e.EditedAt}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return Event{}, err
	}
	decoded, err := inbox.DecodeHeaders(headers)
	if err != nil {
		return Event{}, err
	}
	e.Headers = decoded
	e.ReceivedAt, e.OccurredAt = e.ReceivedAt.UTC(), utc(e.OccurredAt)
	e.ProcessedAt, e.SkippedAt = utc(e.ProcessedAt), utc(e.SkippedAt)
	e.EditedAt = utc(e.EditedAt)
	e.Source = source(topic, partition, offset)
	return e, nil
}

func source(topic *string, partition *int32, offset *int64) *Source {
	if topic == nil {
		return nil
	}
	s := &Source{Topic: *topic}
	if partition != nil {
		s.Partition = *partition
	}
	if offset != nil {
		s.Offset = *offset
	}
	return s
}
