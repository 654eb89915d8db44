package formats

import (
	"fmt"
	"slices"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/cloudevents"
	"github.com/inboxd/inboxd/inbox/debezium"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

// Formats, see the packages of their names and jsonformat.
const (
	Auto        = jsonformat.Auto
	JSON        = jsonformat.JSON
	Raw         = jsonformat.Raw
	CloudEvents = "cloudevents"
	Debezium    = "debezium"
)

// Config says how New decodes.
type Config struct {
	// Format is Auto, JSON, CloudEvents, Debezium or Raw. Empty: Auto.
	Format string
	// Fields are the rules. Empty lists for event id, aggregate id and event type
	// are the default ones; for the other two they are no rules.
	Fields jsonformat.Fields
	// Tombstones is what becomes of a record without a value that is no
	// CloudEvent, one of jsonformat's three. Empty: it is refused.
	Tombstones string
}

// New returns the decoder of a format, or says in whole sentences what is wrong
// with cfg.
func New(cfg Config) (inbox.Decoder, error) {
	cfg.Fields = complete(cfg.Fields)
	if err := jsonformat.ValidateRules(cfg.Fields); err != nil {
		return nil, err
	}
	switch cfg.Format {
	case JSON, Raw:
		return jsonformat.New(jsonformat.Config{Format: cfg.Format, Fields: cfg.Fields, Tombstones: cfg.Tombstones})
	case CloudEvents:
		return newCloudEvents(cfg)
	case Debezium:
		return newDebezium(cfg)
	case Auto, "":
		return newAuto(cfg)
	}
	return nil, fmt.Errorf("the format %q is none: it is %s, %s, %s, %s or %s", cfg.Format, Auto, JSON, CloudEvents, Debezium, Raw)
}

func newAuto(cfg Config) (inbox.Decoder, error) {
	ce, err := newCloudEvents(cfg)
	if err != nil {
		return nil, err
	}
	cdc, err := newDebezium(cfg)
	if err != nil {
		return nil, err
	}
	return jsonformat.New(jsonformat.Config{
		Format: Auto, Fields: cfg.Fields, Tombstones: cfg.Tombstones, Before: []jsonformat.Format{ce, cdc},
	})
}

func newCloudEvents(cfg Config) (*cloudevents.Decoder, error) {
	own := configured(cfg.Fields)
	if own.AggregateID == nil {
		own.AggregateID = []string{"ce:partitionkey", "ce:subject", "key"}
	}
	own.EventID, own.EventType = []string{"ce:id"}, []string{"ce:type"}
	own.OccurredAt = slices.Concat(own.OccurredAt, []string{"ce:time"})
	fields, err := jsonformat.New(jsonformat.Config{Fields: own, Tombstones: jsonformat.TombstoneEvent})
	if err != nil {
		return nil, err
	}
	tombstones, err := jsonformat.New(jsonformat.Config{Fields: cfg.Fields, Tombstones: cfg.Tombstones})
	if err != nil {
		return nil, err
	}
	return cloudevents.New(cloudevents.Config{Fields: fields, Tombstones: tombstones})
}

func newDebezium(cfg Config) (*debezium.Decoder, error) {
	own := configured(cfg.Fields)
	routed := cfg.Fields
	if own.EventType == nil {
		routed.EventType = slices.Insert(slices.Clone(routed.EventType), 1, "header:type")
	}
	outbox, err := jsonformat.New(jsonformat.Config{Fields: routed, Tombstones: cfg.Tombstones})
	if err != nil {
		return nil, err
	}
	byOffset := slices.Contains(cfg.Fields.EventID, jsonformat.ByOffset)
	if own.AggregateID == nil {
		own.AggregateID = []string{"key"}
	}
	// The id and the type found here are not used, but for the id by offset.
	own.EventID, own.EventType = []string{"$.op"}, []string{"$.op"}
	if byOffset {
		own.EventID = []string{jsonformat.ByOffset}
	}
	own.OccurredAt = slices.Concat(own.OccurredAt, []string{"$.source.ts_ms", "$.ts_ms"})
	changes, err := jsonformat.New(jsonformat.Config{Format: JSON, Fields: own})
	if err != nil {
		return nil, err
	}
	return debezium.New(debezium.Config{Outbox: outbox, Changes: changes, ByOffset: byOffset})
}

// complete fills in the defaults for lists that no decoder can be without.
func complete(f jsonformat.Fields) jsonformat.Fields {
	d := jsonformat.DefaultFields()
	for _, l := range []struct{ list, byDefault *[]string }{
		{&f.EventID, &d.EventID}, {&f.AggregateID, &d.AggregateID}, {&f.EventType, &d.EventType},
	} {
		if len(*l.list) == 0 {
			*l.list = *l.byDefault
		}
	}
	return f
}

// configured leaves the lists that are other than the default, and nil for those
// that are not.
func configured(f jsonformat.Fields) jsonformat.Fields {
	d := jsonformat.DefaultFields()
	for _, l := range []struct{ list, byDefault *[]string }{
		{&f.AggregateID, &d.AggregateID}, {&f.EventType, &d.EventType}, {&f.Sequence, &d.Sequence},
	} {
		if slices.Equal(*l.list, *l.byDefault) {
			*l.list = nil
		}
	}
	return f
}
