package debezium_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/inboxd/inboxd/inbox"
)

// FuzzDecode looks for input that panics, that becomes an event which cannot be
// stored, or that has another identity when it comes again.
func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, key, value, header []byte) {
		r := inbox.Record{
			Key: key, Value: value, Headers: []inbox.Header{{Name: "id", Value: header}, {Name: "eventType", Value: header}},
			Source: inbox.Source{Topic: "t", Partition: 1, Offset: 2},
		}
		before := bytes.Clone(value)
		d := decoder(t)
		d.Recognizes(r)
		ev, err := d.Decode(r)
		if !bytes.Equal(before, value) {
			t.Fatal("the record was changed")
		}
		if err != nil {
			var refused *inbox.Refusal
			if !errors.Is(err, inbox.ErrIgnored) && (!errors.As(err, &refused) || refused.Reason == "" || refused.Detail == "") {
				t.Fatalf("err = %v", err)
			}
			return
		}
		if err := ev.Validate(); err != nil {
			t.Fatal(err)
		}
		r.Source.Offset, r.Time = 77, recordTime
		if again, err := d.Decode(r); err != nil || again.ID != ev.ID || again.Type != ev.Type || again.AggregateID != ev.AggregateID {
			t.Fatalf("first %+v, then %+v, err %v", ev, again, err)
		}
	})
}
