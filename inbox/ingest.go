package inbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// Counts says what became of records, by outcome. A record is counted once.
type Counts struct {
	// Stored records are new events.
	Stored int64
	// Duplicates were stored already, as they are.
	Duplicates int64
	// Conflicts have the id of an event that is stored with another content.
	Conflicts int64
	// Quarantined records could not become events.
	Quarantined int64
	// Ignored records are of a type that is ignored, or were passed over by the
	// decoder.
	Ignored int64
}

// Plus adds two counts.
func (c Counts) Plus(o Counts) Counts {
	return Counts{
		Stored:      c.Stored + o.Stored,
		Duplicates:  c.Duplicates + o.Duplicates,
		Conflicts:   c.Conflicts + o.Conflicts,
		Quarantined: c.Quarantined + o.Quarantined,
		Ignored:     c.Ignored + o.Ignored,
	}
}

// Ingester takes records to the inbox: it decodes them, stores what became an
// event and puts the rest into quarantine, a batch in one transaction. It is
// safe for concurrent use.
type Ingester struct {
	// Store is where events go. Required.
	Store *Store
	// Decoder makes events of records. Required.
	Decoder Decoder
	// Ignored says which event types are dropped, counted. Nil: none.
	Ignored func(eventType string) bool
	// Log hears of each quarantined record and, once an event id, of each
	// conflict. Nil: nobody does.
	Log *slog.Logger
	// Observe hears after each commit what became of the batch's records, once for
	// each partition that they came from. It must not block. Nil: nobody does.
	Observe func(Partition, Counts)

	mu       sync.Mutex
	counts   Counts
	conflict map[string]struct{}
}

// Ingest stores one batch of records and returns nil only after the commit. An
// error means that none of them was stored, and that the same batch may be
// given again.
func (g *Ingester) Ingest(ctx context.Context, records []Record) error {
	if g.Store == nil || g.Decoder == nil {
		return &invalid{"the ingester needs a Store and a Decoder"}
	}
	events := make([]Event, 0, len(records))
	from := make([]*Counts, 0, len(records)) // where each of the events counts
	var refused []refusedRecord
	counts := byPartition{}
	for i := range records {
		event, err := g.Decode(records[i])
		c := counts.of(records[i].Source)
		switch {
		case err == nil:
			events, from = append(events, event), append(from, c)
		case errors.Is(err, ErrIgnored):
			c.Ignored++
		default:
			c.Quarantined++
			refused = append(refused, refusedRecord{&records[i], asRefusal(err)})
		}
	}
	outcomes, err := g.Store.put(ctx, events, refused)
	if err != nil {
		return err
	}
	for i, o := range outcomes {
		switch o {
		case Stored:
			from[i].Stored++
		case Duplicate:
			from[i].Duplicates++
		case Conflict:
			from[i].Conflicts++
			g.logConflict(&events[i])
		}
	}
	g.logRefused(refused)
	g.mu.Lock()
	g.counts = g.counts.Plus(counts.total())
	g.mu.Unlock()
	counts.tell(g.Observe)
	return nil
}

// Counts answers what became of all records so far.
func (g *Ingester) Counts() Counts {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts
}

// Decode makes an event of a record, as Ingest does before it stores it. The error
// is ErrIgnored, or why the record would go to quarantine.
func (g *Ingester) Decode(r Record) (Event, error) {
	event, err := g.Decoder.Decode(r)
	if err != nil {
		return Event{}, err
	}
	if err := event.Validate(); err != nil {
		return Event{}, Refuse("invalid", "%s", err)
	}
	if g.Ignored != nil && g.Ignored(event.Type) {
		return Event{}, ErrIgnored
	}
	if event.Source.IsZero() {
		event.Source = r.Source
	}
	return event, nil
}

func asRefusal(err error) *Refusal {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return Refuse("undecodable", "%s", err)
}

func (g *Ingester) logRefused(refused []refusedRecord) {
	if g.Log == nil {
		return
	}
	for _, r := range refused {
		g.Log.Warn("record quarantined", "reason", r.refusal.Reason, "detail", r.refusal.Detail,
			"topic", r.record.Source.Topic, "partition", r.record.Source.Partition, "offset", r.record.Source.Offset)
	}
}

// maxConflictsKept bounds the memory of which conflicts were logged.
const maxConflictsKept = 10_000

func (g *Ingester) logConflict(e *Event) {
	if g.Log == nil {
		return
	}
	g.mu.Lock()
	if g.conflict == nil || len(g.conflict) >= maxConflictsKept {
		g.conflict = map[string]struct{}{}
	}
	_, logged := g.conflict[e.ID]
	g.conflict[e.ID] = struct{}{}
	g.mu.Unlock()
	if !logged {
		g.Log.Warn("duplicate event id with another content; the stored one stands",
			"event_id", e.ID, "aggregate_id", e.AggregateID, "event_type", e.Type,
			"topic", e.Source.Topic, "partition", e.Source.Partition, "offset", e.Source.Offset)
	}
}
