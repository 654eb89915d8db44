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
}

// EventDetail is an event with its payload.
type EventDetail struct {
	Event
	// Payload is as it came. In JSON it is "payload" if it is JSON itself, and
	// "payload_base64" if not.
	Payload []byte
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

// PayloadIsJSON reports whether the payload can stand in JSON as it is.
func (e *EventDetail) PayloadIsJSON() bool { return isJSON(e.Payload) }

// MarshalJSON writes the event and its payload.
func (e EventDetail) MarshalJSON() ([]byte, error) {
	out := struct {
		Event
		Payload json.RawMessage `json:"payload,omitempty"`
		Base64  *[]byte         `json:"payload_base64,omitempty"`
	}{Event: e.Event}
	if isJSON(e.Payload) {
		out.Payload = e.Payload
	} else {
		payload := append([]byte{}, e.Payload...) // nil would be null
		out.Base64 = &payload
	}
	return unescaped(out)
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
	e.source_topic, e.source_partition, e.source_offset, e.headers`

// scanEvent reads a row of eventColumnsSQL, and further columns into more.
func scanEvent(row pgx.Row, more ...any) (Event, error) {
	var e Event
	var topic *string
	var partition *int32
	var offset *int64
	var headers []byte
	dest := []any{&e.EventID, &e.AggregateID, &e.EventType, &e.Position, &e.ReceivedAt,
		&e.OccurredAt, &e.ProcessedAt, &e.SkippedAt, &e.Attempts, &topic, &partition, &offset, &headers}
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
