package inbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/inboxd/inboxd/inbox"
)

// Whoever observes hears of each partition what became of its records, and of
// nothing that was not committed.
func TestIngesterIsObserved(t *testing.T) {
	t.Parallel()
	s := setup(t)
	heard := map[inbox.Partition]inbox.Counts{}
	g := &inbox.Ingester{
		Store: s.store, Decoder: observed{}, Ignored: func(eventType string) bool { return eventType == "Viewed" },
		Observe: func(p inbox.Partition, c inbox.Counts) { heard[p] = heard[p].Plus(c) },
	}
	record := func(partition int32, offset int64, id, payload string) inbox.Record {
		return inbox.Record{Key: []byte(id), Value: []byte(payload), Source: inbox.Source{Topic: "t", Partition: partition, Offset: offset}}
	}
	batch := []inbox.Record{
		record(0, 0, "a", "1"), record(0, 1, "b", "1"), record(1, 0, "a", "1"), record(1, 1, "b", "2"),
		record(1, 2, "c", "1"), record(0, 2, "refused", "1"), record(2, 0, "Viewed", "1"),
	}
	if err := g.Ingest(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := g.Ingest(ended, batch); err == nil {
		t.Fatal("an ended context stored something")
	}
	want := map[inbox.Partition]inbox.Counts{
		{Topic: "t", Number: 0}: {Stored: 2, Quarantined: 1},
		{Topic: "t", Number: 1}: {Stored: 1, Duplicates: 1, Conflicts: 1},
		{Topic: "t", Number: 2}: {Ignored: 1},
	}
	for p, c := range want {
		if heard[p] != c {
			t.Errorf("%v: heard %+v, want %+v", p, heard[p], c)
		}
	}
	if len(heard) != len(want) || g.Counts() != (inbox.Counts{Stored: 3, Duplicates: 1, Conflicts: 1, Quarantined: 1, Ignored: 1}) {
		t.Errorf("heard of %d partitions, in all %+v", len(heard), g.Counts())
	}
}

// observed takes a record's key for the id and, if it is Viewed, for the type.
type observed struct{}

func (observed) Decode(r inbox.Record) (inbox.Event, error) {
	id := string(r.Key)
	if id == "refused" {
		return inbox.Event{}, errors.New("no")
	}
	e := inbox.Event{ID: id, AggregateID: "a", Type: "Paid", Payload: r.Value}
	if id == "Viewed" {
		e.Type = id
	}
	return e, nil
}
