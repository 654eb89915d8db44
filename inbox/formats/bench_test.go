package formats_test

import (
	"strings"
	"testing"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/formats"
)

// BenchmarkAuto shows what it costs to look for the marks of other formats in
// records of plain JSON, and what those formats cost.
func BenchmarkAuto(b *testing.B) {
	note := strings.Repeat("x", 100)
	for name, r := range map[string]inbox.Record{
		"json": {
			Key:     []byte("order-17"),
			Value:   []byte(`{"eventId":"7f3c1d1e-0000-4000-8000-000000000001","eventType":"OrderPaid","orderId":"order-17","version":12,"source":"web","note":"` + note + `"}`),
			Headers: headers("trace", "4bf92f3577b34da6a3ce929d0e0e4736"),
		},
		"cloudevents": {
			Key:     []byte("order-17"),
			Value:   []byte(`{"orderId":"order-17","note":"` + note + `"}`),
			Headers: headers("ce_specversion", "1.0", "ce_id", "1", "ce_source", "/s", "ce_type", "T", "ce_subject", "order-17", "content-type", "application/json"),
		},
		"debezium": {
			Key:   []byte(`{"id":17}`),
			Value: []byte(`{"before":null,"after":{"id":17,"note":"` + note + `"},"source":{"connector":"postgresql","name":"s","ts_ms":1772359200123,"db":"d","schema":"p","table":"orders","txId":571,"lsn":24023128},"op":"c","ts_ms":1}`),
		},
	} {
		b.Run(name, func(b *testing.B) {
			d, err := formats.New(formats.Config{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(r.Value)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Decode(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
