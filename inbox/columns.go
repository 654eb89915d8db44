package inbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// columns are events as the arrays that store() and stage() take.
type columns struct {
	ids, aggregates, types []string
	sequences              []*int64
	payloads               [][]byte
	headers                []*string
	occurred               []*time.Time
	topics                 []*string
	partitions             []*int32
	offsets                []*int64
}

func columnsOf(events []Event) (*columns, error) {
	n := len(events)
	c := &columns{
		ids: make([]string, n), aggregates: make([]string, n), types: make([]string, n),
		sequences: make([]*int64, n), payloads: make([][]byte, n), headers: make([]*string, n),
		occurred: make([]*time.Time, n),
		topics:   make([]*string, n), partitions: make([]*int32, n), offsets: make([]*int64, n),
	}
	for i := range events {
		e := &events[i]
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("event %d of %d (%.100q): %w", i+1, n, e.ID, err)
		}
		if err := c.set(i, e); err != nil {
			return nil, fmt.Errorf("event %d of %d (%.100q): %w", i+1, n, e.ID, err)
		}
	}
	return c, nil
}

func (c *columns) set(i int, e *Event) error {
	c.ids[i], c.aggregates[i], c.types[i], c.sequences[i] = e.ID, e.AggregateID, e.Type, e.Sequence
	c.payloads[i] = nonNil(e.Payload)
	headers, err := EncodeHeaders(e.Headers)
	if err != nil {
		return err
	}
	c.headers[i] = textOrNull(headers)
	if t := storableTime(e.OccurredAt); !t.IsZero() {
		c.occurred[i] = &t
	}
	if !e.Source.IsZero() {
		c.topics[i], c.partitions[i], c.offsets[i] = &e.Source.Topic, &e.Source.Partition, &e.Source.Offset
	}
	return nil
}

func (c *columns) storeArgs(processID *int32) []any {
	names, nos, nths := c.lanes()
	return []any{names, nos, nths, c.ids, c.types, array(c.sequences), pgtype.FlatArray[[]byte](c.payloads),
		array(c.headers), array(c.occurred), array(c.topics), array(c.partitions), array(c.offsets), processID}
}

func (c *columns) stageArgs() []any {
	return []any{c.ids, c.aggregates, c.types, array(c.sequences), pgtype.FlatArray[[]byte](c.payloads),
		array(c.headers), array(c.occurred)}
}

// array is the cheapest form of a column: null when all of it is.
func array[T any](column []*T) any {
	present := make(pgtype.FlatArray[T], 0, len(column))
	for _, v := range column {
		if v != nil {
			present = append(present, *v)
		}
	}
	switch len(present) {
	case 0:
		return nil
	case len(column):
		return present
	}
	return pgtype.FlatArray[*T](column)
}

// lanes gives the aggregates, each once and in order, which of them each event's
// is, counted from 1, and the event's number within it, counted from 1; 0 is for
// an event whose id was there before.
func (c *columns) lanes() (names []string, nos, nths []int32) {
	names = slices.Clone(c.aggregates)
	slices.Sort(names)
	names = slices.Compact(names)
	no := make(map[string]int32, len(names))
	for i, name := range names {
		no[name] = int32(i + 1)
	}
	nos, nths = make([]int32, len(c.ids)), make([]int32, len(c.ids))
	counts := make([]int32, len(names))
	seen := make(map[string]struct{}, len(c.ids))
	for i, id := range c.ids {
		nos[i] = no[c.aggregates[i]]
		if _, again := seen[id]; again {
			continue
		}
		seen[id] = struct{}{}
		counts[nos[i]-1]++
		nths[i] = counts[nos[i]-1]
	}
	return names, nos, nths
}

// storableTime drops a time that timestamptz cannot hold.
func storableTime(t time.Time) time.Time {
	if y := t.Year(); y < -4000 || y > 200000 {
		return time.Time{}
	}
	return t
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func textOrNull(b []byte) *string {
	if b == nil {
		return nil
	}
	s := string(b)
	return &s
}
