package debezium

import (
	"errors"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/rawjson"
)

// Config says what a Decoder needs to know. Outbox and Changes are needed.
type Config struct {
	// Outbox decodes what the outbox event router wrote, and tombstones, with
	// key, value and headers unwrapped.
	Outbox inbox.Decoder
	// Changes finds the aggregate's id, the time and, where configured, the
	// sequence of a change event, with key and value unwrapped. The type that it
	// finds is not used, but it must find one.
	Changes inbox.Decoder
	// ByOffset takes the id that Changes finds for a change event without a
	// position. It is for ids made of the record's topic, partition and offset,
	// under which a change that Debezium sends again is another event.
	ByOffset bool
}

// Decoder is an inbox.Decoder for what Debezium writes.
type Decoder struct {
	cfg Config
}

// New returns a Decoder, or says in a sentence what cfg lacks.
func New(cfg Config) (*Decoder, error) {
	if cfg.Outbox == nil || cfg.Changes == nil {
		return nil, errors.New("a decoder for Debezium needs Outbox and Changes, which find the fields of events")
	}
	return &Decoder{cfg}, nil
}

// Decode implements inbox.Decoder. Its refusals have the reasons truncate,
// schema-change, bad-change, no-event-id, bad-event-id, no-event-type,
// bad-event-type and those of Config.Outbox and Config.Changes.
func (d *Decoder) Decode(r inbox.Record) (inbox.Event, error) {
	value := unwrap(r.Value)
	switch members := value.json.Members(); kindOf(&r, members) {
	case kindChange:
		return d.change(&r, value.json, members)
	case kindHeartbeat, kindTransaction:
		return inbox.Event{}, inbox.ErrIgnored
	case kindSchema:
		return inbox.Event{}, inbox.Refuse("schema-change",
			"The record says that tables were changed, which is no event of one aggregate.")
	}
	return d.outbox(&r, value)
}

// outbox decodes a record as if no converter had written it.
func (d *Decoder) outbox(r *inbox.Record, value wrapped) (inbox.Event, error) {
	view := inbox.Record{
		Key: keyText(r.Key), Value: value.bytes(), Headers: unwrapHeaders(r.Headers),
		Source: r.Source, Time: r.Time,
	}
	ev, err := d.cfg.Outbox.Decode(view)
	if err != nil {
		return inbox.Event{}, err
	}
	ev.Payload, ev.Headers, ev.Source = view.Value, r.Headers, r.Source
	return ev, nil
}

// change decodes a change event.
func (d *Decoder) change(r *inbox.Record, payload rawjson.Value, members rawjson.Members) (inbox.Event, error) {
	c, err := parseChange(members)
	if err != nil {
		return inbox.Event{}, err
	}
	c.key = keyText(r.Key)
	ev, err := d.cfg.Changes.Decode(inbox.Record{
		Key: c.key, Value: payload, Headers: r.Headers, Source: r.Source, Time: r.Time,
	})
	if err != nil {
		return inbox.Event{}, err
	}
	id, problem := c.id()
	switch {
	case problem == "":
		ev.ID = id
	case !d.cfg.ByOffset:
		return inbox.Event{}, inbox.Refuse("no-event-id", "%s; topic-partition-offset among the rules for event_id would identify it by its place in Kafka.", problem)
	}
	if len(ev.ID) > inbox.MaxName {
		return inbox.Event{}, inbox.Refuse("bad-event-id", "The change event's position makes an id of %d bytes, more than the %d that can be stored.", len(ev.ID), inbox.MaxName)
	}
	if ev.OccurredAt.UnixMilli() == 0 { // what some snapshots write for "unknown"
		ev.OccurredAt = r.Time
	}
	ev.Type = c.eventType
	ev.Payload, ev.Headers, ev.Source = payload, r.Headers, r.Source
	return ev, nil
}
