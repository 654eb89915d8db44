package formats_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/formats"
	jsonformat "github.com/inboxd/inboxd/inbox/json"
)

// sample is one of those under testdata/formats; see the README there.
type sample struct {
	Name       string              `json:"name"`
	Formats    []string            `json:"formats"`
	Fields     map[string][]string `json:"fields"`
	Tombstones string              `json:"tombstones"`
	Record     struct {
		Topic     string      `json:"topic"`
		Partition int32       `json:"partition"`
		Offset    int64       `json:"offset"`
		Time      time.Time   `json:"time"`
		Key       octets      `json:"key"`
		Value     octets      `json:"value"`
		Headers   [][2]octets `json:"headers"`
	} `json:"record"`
	Event *struct {
		EventID     string      `json:"event_id"`
		AggregateID string      `json:"aggregate_id"`
		EventType   string      `json:"event_type"`
		Sequence    *int64      `json:"sequence"`
		OccurredAt  time.Time   `json:"occurred_at"`
		Payload     octets      `json:"payload"`
		Headers     [][2]octets `json:"headers"`
	} `json:"event"`
	Refused string `json:"refused"`
	Ignored bool   `json:"ignored"`
}

// octets are bytes as a sample writes them.
type octets []byte

func (o *octets) UnmarshalJSON(raw []byte) error {
	switch raw[0] {
	case 'n':
		return nil
	case '"':
		var text string
		err := json.Unmarshal(raw, &text)
		*o = octets(text)
		return err
	}
	var form struct {
		JSON   json.RawMessage `json:"json"`
		Base64 []byte          `json:"base64"`
	}
	err := json.Unmarshal(raw, &form)
	*o = octets(form.JSON)
	if form.JSON == nil {
		*o = form.Base64
	}
	return err
}

func headersOf(pairs [][2]octets) []inbox.Header {
	var hs []inbox.Header
	for _, p := range pairs {
		hs = append(hs, inbox.Header{Name: string(p[0]), Value: p[1]})
	}
	return hs
}

func (s *sample) record() inbox.Record {
	return inbox.Record{
		Key: s.Record.Key, Value: s.Record.Value, Headers: headersOf(s.Record.Headers), Time: s.Record.Time,
		Source: inbox.Source{Topic: s.Record.Topic, Partition: s.Record.Partition, Offset: s.Record.Offset},
	}
}

func (s *sample) decoder(t *testing.T, format string) inbox.Decoder {
	t.Helper()
	fields := jsonformat.DefaultFields()
	for name, list := range s.Fields {
		switch name {
		case "event_id":
			fields.EventID = list
		case "aggregate_id":
			fields.AggregateID = list
		case "event_type":
			fields.EventType = list
		case "sequence":
			fields.Sequence = list
		case "occurred_at":
			fields.OccurredAt = list
		default:
			t.Fatalf("there is no field %s", name)
		}
	}
	d, err := formats.New(formats.Config{Format: format, Fields: fields, Tombstones: s.Tombstones})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// check compares what a record became with what the sample says.
func (s *sample) check(t *testing.T, ev inbox.Event, err error) {
	t.Helper()
	var refused *inbox.Refusal
	switch {
	case errors.As(err, &refused):
		if refused.Reason != s.Refused || refused.Detail == "" {
			t.Errorf("refused: %v, want %q", refused, s.Refused)
		}
		return
	case errors.Is(err, inbox.ErrIgnored):
		if !s.Ignored {
			t.Error("ignored")
		}
		return
	case err != nil || s.Event == nil:
		t.Fatalf("event %+v, err %v", ev, err)
	}
	if err := ev.Validate(); err != nil {
		t.Error(err)
	}
	want := s.Event
	if ev.ID != want.EventID || ev.AggregateID != want.AggregateID || ev.Type != want.EventType {
		t.Errorf("id %s, aggregate %s, type %s", ev.ID, ev.AggregateID, ev.Type)
	}
	if fmt.Sprint(number(ev.Sequence)) != fmt.Sprint(number(want.Sequence)) || !ev.OccurredAt.Equal(want.OccurredAt) {
		t.Errorf("sequence %v, occurred at %v", number(ev.Sequence), ev.OccurredAt)
	}
	if !bytes.Equal(ev.Payload, want.Payload) || (ev.Payload == nil) != (want.Payload == nil) {
		t.Errorf("payload %q", ev.Payload)
	}
	headers := s.record().Headers
	if want.Headers != nil {
		headers = headersOf(want.Headers)
	}
	same := func(a, b inbox.Header) bool { return a.Name == b.Name && bytes.Equal(a.Value, b.Value) }
	if !slices.EqualFunc(ev.Headers, headers, same) {
		t.Errorf("headers %q", ev.Headers)
	}
	if ev.Source != s.record().Source {
		t.Errorf("source %+v", ev.Source)
	}
}

func number(n *int64) any {
	if n == nil {
		return "none"
	}
	return *n
}

// samples reads all of them, by file.
func samples(t testing.TB) map[string][]sample {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/formats/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	all := map[string][]sample{}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			About   string   `json:"about"`
			Samples []sample `json:"samples"`
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[filepath.Base(path)] = file.Samples
	}
	return all
}

func TestSamples(t *testing.T) {
	t.Parallel()
	for file, list := range samples(t) {
		for _, s := range list {
			for _, format := range s.Formats {
				t.Run(file+"/"+s.Name+"/"+format, func(t *testing.T) {
					t.Parallel()
					d := s.decoder(t, format)
					ev, err := d.Decode(s.record())
					s.check(t, ev, err)
				})
			}
		}
	}
}
