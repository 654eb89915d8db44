package cloudevents

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/inboxd/inboxd/inbox"
)

// Prefix is what the names of headers begin with that hold attributes.
const Prefix = "ce_"

// Config says what a Decoder needs to know. Fields is needed.
type Config struct {
	// Fields finds the aggregate's id, the time and, where configured, the
	// sequence in the record in binary mode, attributes as headers with Prefix
	// and the data as the value, which is nil if there is none. The id and the
	// type that it finds are not used, but it must find some.
	Fields inbox.Decoder
	// Tombstones decodes records without a value that bear no mark of
	// CloudEvents. Nil: they are refused.
	Tombstones inbox.Decoder
}

// Decoder is an inbox.Decoder for CloudEvents.
type Decoder struct {
	fields, tombstones inbox.Decoder
}

// New returns a Decoder, or says in a sentence what cfg lacks.
func New(cfg Config) (*Decoder, error) {
	if cfg.Fields == nil {
		return nil, errors.New("a decoder for CloudEvents needs Fields, which finds the aggregate")
	}
	return &Decoder{fields: cfg.Fields, tombstones: cfg.Tombstones}, nil
}

// Recognizes reports whether the record bears a mark of CloudEvents.
func (d *Decoder) Recognizes(r inbox.Record) bool { return modeOf(&r) != modeNone }

// Decode implements inbox.Decoder. Its refusals have the reasons
// not-cloudevents, cloudevents-batch, unsupported-content-type, not-json,
// not-an-object, bad-specversion, bad-attribute, bad-data, tombstone,
// no-event-id, no-event-type, bad-event-id, bad-event-type and those of
// Config.Fields.
func (d *Decoder) Decode(r inbox.Record) (inbox.Event, error) {
	var m *message
	var err error
	switch modeOf(&r) {
	case modeBinary:
		m = fromHeaders(&r)
	case modeStructured:
		m, err = fromJSON(&r)
	case modeBatch:
		err = inbox.Refuse("cloudevents-batch", "The record holds a batch of CloudEvents, for which the Kafka binding has no mode; each event needs a record of its own.")
	case modeUnknown:
		err = inbox.Refuse("unsupported-content-type", "The record is a structured CloudEvent in another format than JSON, or in another encoding than UTF-8.")
	default:
		return d.unmarked(r)
	}
	if err == nil {
		err = m.check()
	}
	if err != nil {
		return inbox.Event{}, err
	}
	return d.event(&r, m)
}

// unmarked decodes what is no CloudEvent.
func (d *Decoder) unmarked(r inbox.Record) (inbox.Event, error) {
	switch {
	case r.Value != nil:
		return inbox.Event{}, inbox.Refuse("not-cloudevents",
			"The record is no CloudEvent: its content type is another, it has no header ce_specversion, and its value is no JSON object with specversion, id, source and type.")
	case d.tombstones == nil:
		return inbox.Event{}, inbox.Refuse("tombstone", "The record has no value, and no attributes of a CloudEvent in its headers.")
	}
	return d.tombstones.Decode(r)
}

// ID is the event id of a CloudEvent: "source id", with one space between them.
// A source is a URI reference, in which no space can be, so no two events have
// the same ID. A source that is none, because it has a space or begins with a
// bracket, is told apart by another form, the JSON list ["source","id"].
func ID(source, id string) string {
	if strings.HasPrefix(source, "[") || strings.Contains(source, " ") {
		list, _ := json.Marshal([]string{source, id}) // two texts always have a form
		return string(list)
	}
	return source + " " + id
}

// event makes the event of a message that was checked.
func (d *Decoder) event(r *inbox.Record, m *message) (inbox.Event, error) {
	ev, err := d.fields.Decode(inbox.Record{
		Key: r.Key, Value: m.data, Headers: m.lookup, Source: r.Source, Time: r.Time,
	})
	if err != nil {
		return inbox.Event{}, err
	}
	ev.ID, ev.Type = ID(m.source, m.id), m.eventType
	if len(ev.ID) > inbox.MaxName {
		return inbox.Event{}, inbox.Refuse("bad-event-id", "The CloudEvents attributes source and id have %d bytes together, more than the %d that can be stored.",
			len(ev.ID), inbox.MaxName)
	}
	if ev.Sequence == nil {
		ev.Sequence = m.sequence()
	}
	ev.Payload, ev.Headers, ev.Source = m.data, m.headers, r.Source
	return ev, nil
}

// sequence is the extension's value if it is an integer. The specification
// allows any text there, so another one is no fault.
func (m *message) sequence() *int64 {
	n, err := strconv.ParseInt(last(m.lookup, Prefix+"sequence"), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// check looks at the attributes that every CloudEvent has.
func (m *message) check() error {
	switch version := last(m.lookup, Prefix+"specversion"); version {
	case "1.0":
	case "":
		return inbox.Refuse("bad-specversion", "The CloudEvents attribute specversion is missing or empty; it must be 1.0.")
	default:
		return inbox.Refuse("bad-specversion", "The CloudEvents attribute specversion is another than 1.0, the only one that is known.")
	}
	for _, a := range []struct {
		name, word string
		to         *string
	}{{"id", "event-id", &m.id}, {"source", "event-id", &m.source}, {"type", "event-type", &m.eventType}} {
		*a.to = last(m.lookup, Prefix+a.name)
		switch {
		case *a.to == "":
			return inbox.Refuse("no-"+a.word, "The CloudEvents attribute %s is missing or empty.", a.name)
		case !utf8.ValidString(*a.to):
			return inbox.Refuse("bad-"+a.word, "The CloudEvents attribute %s holds bytes that are no UTF-8.", a.name)
		case strings.IndexByte(*a.to, 0) >= 0:
			return inbox.Refuse("bad-"+a.word, "The CloudEvents attribute %s holds a NUL byte.", a.name)
		case len(*a.to) > inbox.MaxName:
			return inbox.Refuse("bad-"+a.word, "The CloudEvents attribute %s has %d bytes, more than the %d that can be stored.", a.name, len(*a.to), inbox.MaxName)
		}
	}
	return nil
}
