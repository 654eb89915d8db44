package service_test

import (
	"reflect"
	"testing"

	"github.com/inboxd/inboxd/inbox"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/service"
)

func TestEveryFormatHasADecoder(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"auto", "json", "cloudevents", "debezium", "raw"} {
		c := config.Default()
		c.Kafka.Format = format
		if d, err := service.Decoder(c); err != nil || d == nil {
			t.Errorf("%s: %v", format, err)
		}
	}
	c := config.Default()
	c.Kafka.Format = "xml"
	if _, err := service.Decoder(c); err == nil {
		t.Error("xml has a decoder")
	}
}

// What the formats take for "not configured" must be what the configuration has
// for its defaults.
func TestDefaultsAreTheSame(t *testing.T) {
	t.Parallel()
	f, d := config.Default().Kafka.Fields, jsonformat.DefaultFields()
	if !reflect.DeepEqual([][]string{f.EventID, f.AggregateID, f.EventType, f.Sequence}, [][]string{d.EventID, d.AggregateID, d.EventType, d.Sequence}) ||
		len(f.OccurredAt)+len(d.OccurredAt) != 0 {
		t.Errorf("%+v and %+v", f, d)
	}
}

func TestDecoderByDefault(t *testing.T) {
	t.Parallel()
	d, err := service.Decoder(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	ev, err := d.Decode(inbox.Record{
		Value:   []byte(`{"specversion":"1.0","id":"1","source":"/s","type":"T","subject":"a","data":{}}`),
		Headers: []inbox.Header{{Name: "content-type", Value: []byte("application/cloudevents+json")}},
	})
	if err != nil || ev.ID != "/s 1" || ev.AggregateID != "a" {
		t.Errorf("%+v, err %v", ev, err)
	}
}
