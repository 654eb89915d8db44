package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/inboxd/inboxd/inbox"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

// Keys are those that a line may have.
var keys = []string{"event_id", "aggregate_id", "event_type", "payload", "sequence", "occurred_at", "headers"}

// maxUnknown bounds how many unknown keys are remembered.
const maxUnknown = 20

// Decoder makes events of lines.
type Decoder struct {
	fields *jsonformat.Decoder

	mu      sync.Mutex
	unknown []string
}

// NewDecoder returns a Decoder.
func NewDecoder() *Decoder {
	d, err := jsonformat.New(jsonformat.Config{
		Format: jsonformat.JSON,
		Fields: jsonformat.Fields{
			EventID:     []string{"$.event_id"},
			AggregateID: []string{"$.aggregate_id"},
			EventType:   []string{"$.event_type"},
			Sequence:    []string{"$.sequence"},
			OccurredAt:  []string{"$.occurred_at"},
		},
	})
	if err != nil {
		panic(err) // the rules are constants
	}
	return &Decoder{fields: d}
}

// Decode implements inbox.Decoder. Its refusals have the reasons of package
// jsonformat, and not-an-object and bad-headers.
func (d *Decoder) Decode(line inbox.Record) (inbox.Event, error) {
	event, err := d.fields.Decode(line)
	if err != nil {
		if first := firstByte(line.Value); first != '{' && first != 0 && json.Valid(line.Value) {
			return inbox.Event{}, inbox.Refuse("not-an-object", "The line is JSON, but not an object with event_id, aggregate_id and event_type.")
		}
		return inbox.Event{}, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(line.Value, &values); err != nil {
		return inbox.Event{}, inbox.Refuse("not-json", "%s.", err)
	}
	event.Payload = values["payload"]
	if event.Headers, err = headers(values["headers"]); err != nil {
		return inbox.Event{}, inbox.Refuse("bad-headers", "The headers are neither an object of names and texts nor a list of [name, text] pairs: %s.", err)
	}
	d.note(values)
	return event, nil
}

// note remembers keys that mean nothing.
func (d *Decoder) note(values map[string]json.RawMessage) {
	for key := range values {
		if slices.Contains(keys, key) {
			continue
		}
		d.mu.Lock()
		if len(d.unknown) < maxUnknown && !slices.Contains(d.unknown, key) {
			d.unknown = append(d.unknown, key)
		}
		d.mu.Unlock()
	}
}

// Unknown lists, in order, keys of lines that were decoded that mean nothing to
// the Decoder: the first twenty.
func (d *Decoder) Unknown() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(slices.Values(d.unknown))
}

func firstByte(b []byte) byte {
	if b = bytes.TrimLeft(b, " \t\r\n"); len(b) > 0 {
		return b[0]
	}
	return 0
}

// headers reads an object, in the order of its names, or a list of pairs.
func headers(raw json.RawMessage) ([]inbox.Header, error) {
	switch firstByte(raw) {
	case 0, 'n': // missing, or null
		return nil, nil
	case '[':
		return pairs(raw)
	case '{':
		return object(raw)
	}
	return nil, fmt.Errorf("they are %.20q", raw)
}

func pairs(raw json.RawMessage) ([]inbox.Header, error) {
	var list [][]json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("the list does not hold pairs only")
	}
	for i, pair := range list {
		if len(pair) != 2 {
			return nil, fmt.Errorf("number %d of the list has %d items, not 2", i+1, len(pair))
		}
	}
	return inbox.DecodeHeaders(raw)
}

func object(raw json.RawMessage) ([]inbox.Header, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil { // the opening brace
		return nil, err
	}
	var all []inbox.Header
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		h := inbox.Header{Name: name.(string)} // keys of objects are texts
		if h.Value, err = headerValue(value); err != nil {
			return nil, fmt.Errorf("the value of %q %w", h.Name, err)
		}
		all = append(all, h)
	}
	return all, nil
}

// headerValue takes a text, or the JSON text of a number, true or false; null is
// a header without a value.
func headerValue(raw json.RawMessage) ([]byte, error) {
	switch firstByte(raw) {
	case 'n':
		return nil, nil
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return []byte(text), err
	case '{', '[':
		return nil, fmt.Errorf("is an object or a list")
	}
	return raw, nil
}
