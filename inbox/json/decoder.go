package jsonformat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/inboxd/inboxd/inbox"
)

// Formats, see the package documentation.
const (
	JSON = "json"
	Raw  = "raw"
	Auto = "auto"
)

// What becomes of a record without a value.
const (
	// TombstoneQuarantine refuses it.
	TombstoneQuarantine = "quarantine"
	// TombstoneIgnore drops it, counted.
	TombstoneIgnore = "ignore"
	// TombstoneEvent makes an event without payload of it; its fields come from
	// the key, the headers, and the rules "tombstone:TYPE" and ByOffset, because a
	// tombstone seldom has headers that name its type and its id.
	TombstoneEvent = "event"
)

// Format is a decoder that knows by their marks which records are its own.
// It must be safe for concurrent use.
type Format interface {
	inbox.Decoder
	// Recognizes reports whether the record bears the format's marks. It should
	// be quick: it is asked for every record.
	Recognizes(inbox.Record) bool
}

// Config says how New decodes.
type Config struct {
	// Format is JSON, Raw or Auto. Empty: Auto.
	Format string
	// Fields are the rules. Event id, aggregate id and event type need at least
	// one each, and under Raw one that does not look into the value.
	Fields Fields
	// Tombstones is TombstoneQuarantine, TombstoneIgnore or TombstoneEvent.
	// Empty: TombstoneQuarantine.
	Tombstones string
	// Before are formats that Auto asks first, in this order, tombstones
	// included; the first that recognizes a record decodes it. Others than Auto
	// do not use it.
	Before []Format
}

// Decoder is an inbox.Decoder for JSON and for values of any kind.
type Decoder struct {
	format     string
	tombstones string
	fields     *fields
	before     []Format
}

// New returns a decoder, or says in whole sentences what is wrong with cfg.
func New(cfg Config) (*Decoder, error) {
	d := &Decoder{format: cfg.Format, tombstones: cfg.Tombstones}
	if d.format == "" {
		d.format = Auto
	}
	if d.tombstones == "" {
		d.tombstones = TombstoneQuarantine
	}
	if d.format == Auto {
		d.before = cfg.Before
	}
	var err error
	d.fields, err = compile(cfg.Fields)
	return d, errors.Join(err, d.validate())
}

func (d *Decoder) validate() error {
	var errs []error
	if d.format != JSON && d.format != Raw && d.format != Auto {
		errs = append(errs, fmt.Errorf("the format %q is none: it is %q, %q or %q", d.format, JSON, Raw, Auto))
	}
	switch d.tombstones {
	case TombstoneQuarantine, TombstoneIgnore, TombstoneEvent:
	default:
		errs = append(errs, fmt.Errorf("tombstones cannot be %q: it is %q, %q or %q",
			d.tombstones, TombstoneQuarantine, TombstoneIgnore, TombstoneEvent))
	}
	if d.fields.eventType.has(inTombstone) && d.tombstones != TombstoneEvent {
		errs = append(errs, fmt.Errorf("fields.event_type names a type for tombstones, but tombstones are set to %q and not to %q",
			d.tombstones, TombstoneEvent))
	}
	for _, f := range d.fields.required() {
		switch {
		case len(f.rules) == 0:
			errs = append(errs, fmt.Errorf("fields.%s has no usable rule, and without it nothing becomes an event; %s", f.name, howRulesLook))
		case d.format == Raw && !f.looksOutside():
			errs = append(errs, fmt.Errorf("fields.%s looks only into the value, which the format %q never reads; give it a header or the key", f.name, Raw))
		}
	}
	return errors.Join(errs...)
}

// Decode implements inbox.Decoder. Its refusals have the reasons not-json,
// tombstone, no-event-id, no-aggregate-id, no-event-type, bad-event-id,
// bad-aggregate-id, bad-event-type, bad-sequence and bad-occurred-at.
func (d *Decoder) Decode(r inbox.Record) (inbox.Event, error) {
	for _, f := range d.before {
		if f.Recognizes(r) {
			return f.Decode(r)
		}
	}
	in := found{record: &r}
	switch {
	case r.Value == nil:
		if err := d.tombstone(); err != nil {
			return inbox.Event{}, err
		}
	case d.format == Raw:
	case json.Valid(r.Value):
		in.values = d.fields.paths.walk(r.Value)
	case d.format == JSON:
		return inbox.Event{}, notJSON(r.Value)
	}
	return d.event(in)
}

func (d *Decoder) tombstone() error {
	switch d.tombstones {
	case TombstoneIgnore:
		return inbox.ErrIgnored
	case TombstoneEvent:
		return nil
	default:
		return inbox.Refuse("tombstone", "The record has no value, and tombstones are configured to be quarantined.")
	}
}

// notJSON says where the value stops being JSON, and nothing of what is there.
func notJSON(value []byte) error {
	if len(value) == 0 {
		return inbox.Refuse("not-json", "The value is empty, which is no JSON.")
	}
	detail := fmt.Sprintf("The value of %d bytes is no JSON", len(value))
	var syntax *json.SyntaxError
	var any json.RawMessage
	if err := json.Unmarshal(value, &any); errors.As(err, &syntax) {
		detail += fmt.Sprintf("; the first wrong byte is number %d", syntax.Offset)
	}
	return inbox.Refuse("not-json", "%s.", detail)
}

func (d *Decoder) event(in found) (ev inbox.Event, err error) {
	r := in.record
	if ev.ID, err = d.fields.id.must(in); err != nil {
		return inbox.Event{}, err
	}
	if ev.AggregateID, err = d.fields.aggregate.must(in); err != nil {
		return inbox.Event{}, err
	}
	if ev.Type, err = d.fields.eventType.must(in); err != nil {
		return inbox.Event{}, err
	}
	if ev.Sequence, err = d.fields.sequence.integer(in); err != nil {
		return inbox.Event{}, err
	}
	if ev.OccurredAt, err = d.fields.occurred.time(in); err != nil {
		return inbox.Event{}, err
	}
	if ev.OccurredAt.IsZero() && storable(r.Time) {
		ev.OccurredAt = r.Time
	}
	ev.Payload, ev.Headers, ev.Source = r.Value, r.Headers, r.Source
	return ev, nil
}

// integer is find for a number; nil if nothing was found.
func (f *field) integer(in found) (*int64, error) {
	text, by, err := f.find(in)
	if err != nil || text == "" {
		return nil, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, inbox.Refuse("bad-"+f.word, "The rule %q for %s found something that is no integer of 64 bits.", by.text, f.name)
	}
	return &n, nil
}

// time is find for a time; the zero time if nothing was found.
func (f *field) time(in found) (time.Time, error) {
	text, by, err := f.find(in)
	if err != nil || text == "" {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		var millis int64
		if millis, err = strconv.ParseInt(text, 10, 64); err == nil {
			t = time.UnixMilli(millis).UTC()
		}
	}
	if err != nil || !storable(t) {
		return time.Time{}, inbox.Refuse("bad-"+f.word,
			"The rule %q for %s found neither an RFC 3339 time nor milliseconds since 1970, between the years 1 and 9999.", by.text, f.name)
	}
	return t, nil
}

// storable reports whether t is a time that the database and its readers can
// hold: a producer may put any number of milliseconds on a record.
func storable(t time.Time) bool {
	return !t.IsZero() && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999
}
