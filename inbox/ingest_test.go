package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox"
)

// decoder takes records whose value is "id aggregate type payload" and refuses
// or ignores others as their value says.
type decoder struct{}

func (decoder) Decode(r inbox.Record) (inbox.Event, error) {
	switch v := string(r.Value); {
	case strings.HasPrefix(v, "refuse"):
		return inbox.Event{}, fmt.Errorf("decode: %w", inbox.Refuse("not-json", "found %q", v))
	case strings.HasPrefix(v, "ignore"):
		return inbox.Event{}, fmt.Errorf("decode: %w", inbox.ErrIgnored)
	case strings.HasPrefix(v, "fail"):
		return inbox.Event{}, errors.New("something else: " + v)
	default:
		f := append(strings.SplitN(v, " ", 4), "", "", "", "")
		return inbox.Event{ID: f[0], AggregateID: f[1], Type: f[2], Payload: []byte(f[3]), Headers: r.Headers, OccurredAt: r.Time}, nil
	}
}

func record(offset int, value string) inbox.Record {
	return inbox.Record{Value: []byte(value), Source: inbox.Source{Topic: "t", Partition: 2, Offset: int64(offset)},
		Time: time.Unix(1e9, 0)}
}

func records(values ...string) []inbox.Record {
	all := make([]inbox.Record, len(values))
	for i, v := range values {
		all[i] = record(i, v)
	}
	return all
}

// logBook collects what is logged.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (s *stage) ingester() (*inbox.Ingester, *logBook) {
	book := &logBook{}
	return &inbox.Ingester{Store: s.store, Decoder: decoder{}, Log: slog.New(slog.NewTextHandler(book, nil)),
		Ignored: func(eventType string) bool { return eventType == "Viewed" }}, book
}

func TestIngestCountsEveryRecord(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g, book := s.ingester()
	batch := records("1 a Paid x", "2 b Paid x", "refuse this", "1 a Paid x", "2 b Paid y", "ignore this",
		"3 a Viewed x", "fail here", " a Paid no-id", "4 a Paid x")
	must(t, g.Ingest(t.Context(), batch))
	want := inbox.Counts{Stored: 3, Duplicates: 1, Conflicts: 1, Quarantined: 3, Ignored: 2}
	if got := g.Counts(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	s.whole(3)
	if got := s.lane("a"); got != "1:1 2:4" {
		t.Errorf("the lane is %s", got)
	}
	if got := one[string](t, s.pool, `select string_agg(concat_ws(' ', source_offset, reason), ', ' order by source_offset) from inboxd.quarantine`); got != "2 not-json, 7 undecodable, 8 invalid" {
		t.Errorf("quarantine holds %s", got)
	}
	if got := one[string](t, s.pool, `select concat_ws(' ', source_topic, source_partition, source_offset, extract(epoch from occurred_at)::int)
		from inboxd.inbox where event_id = '4'`); got != "t 2 9 1000000000" {
		t.Errorf("the event's source is %s", got)
	}
	must(t, g.Ingest(t.Context(), batch))
	want = want.Plus(inbox.Counts{Duplicates: 4, Conflicts: 1, Quarantined: 3, Ignored: 2})
	if got := g.Counts(); got != want {
		t.Errorf("counted %+v after a redelivery, want %+v", got, want)
	}
	s.whole(3)
	if log := book.String(); strings.Contains(log, `payload`) || strings.Count(log, "record quarantined") != 6 {
		t.Errorf("logged: %s", log)
	}
}

func TestIngestOfNothingAndOfIgnoredRecords(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g, _ := s.ingester()
	g.Log = nil
	must(t, g.Ingest(t.Context(), nil))
	must(t, g.Ingest(t.Context(), records("ignore", "1 a Viewed x")))
	must(t, g.Ingest(t.Context(), records("refuse", "1 a Paid x", "1 a Paid y")))
	want := inbox.Counts{Stored: 1, Conflicts: 1, Quarantined: 1, Ignored: 2}
	if got := g.Counts(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// A conflict is logged once an event id, without its payload.
func TestConflictIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g, book := s.ingester()
	must(t, g.Ingest(t.Context(), records("1 a Paid x", "2 a Paid x")))
	for range 3 {
		must(t, g.Ingest(t.Context(), records("1 a Paid secret", "2 a Paid x", "2 b Paid x", "1 a Paid secret")))
	}
	if got := g.Counts().Conflicts; got != 9 {
		t.Errorf("%d conflicts counted, want 9", got)
	}
	log := book.String()
	if strings.Count(log, "event_id=1 ") != 1 || strings.Count(log, "event_id=2 ") != 1 || strings.Contains(log, "secret") {
		t.Errorf("logged: %s", log)
	}
}

func TestQuarantineKeepsARecordAsItCame(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g, _ := s.ingester()
	odd := record(7, "refuse \x00\xff")
	odd.Key = []byte("\x00key\xff")
	odd.Headers = headerLists["repeated names"]
	tombstone := inbox.Record{Source: inbox.Source{Topic: "t", Offset: 1}, Time: time.Date(400000, 1, 1, 0, 0, 0, 0, time.UTC)}
	empty := inbox.Record{Key: []byte{}, Value: []byte{}, Source: inbox.Source{Topic: "t", Offset: 2}}
	must(t, g.Ingest(t.Context(), []inbox.Record{odd, tombstone, empty}))
	var key, value, headers []byte
	var detail string
	var at time.Time
	must(t, s.pool.QueryRow(t.Context(), `select key, value, headers, detail, record_time from inboxd.quarantine where source_offset = 7`).
		Scan(&key, &value, &headers, &detail, &at))
	if !bytes.Equal(key, odd.Key) || !bytes.Equal(value, odd.Value) || !at.Equal(odd.Time) || !strings.Contains(detail, `\x00\xff`) {
		t.Errorf("key %q, value %q, detail %q, time %v", key, value, detail, at)
	}
	if got, err := inbox.DecodeHeaders(headers); err != nil || !reflect.DeepEqual(got, odd.Headers) {
		t.Errorf("headers %q, %v", got, err)
	}
	if got := one[string](t, s.pool, `select string_agg(concat_ws(' ', source_offset, key is null, value is null, record_time is null), ', ' order by source_offset)
		from inboxd.quarantine where source_offset < 7`); got != "1 t t t, 2 f f t" {
		t.Errorf("a tombstone and an empty record: %s", got)
	}
}

// Once a topic, partition and offset, however often it is delivered and by how
// many at once.
func TestQuarantineHoldsARecordOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g, _ := s.ingester()
	batch := records("refuse 0", "refuse 1", "1 a Paid x", "refuse 3", "refuse 4")
	backwards := []inbox.Record{batch[4], batch[3], batch[2], batch[1], batch[0]}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5 {
				if err := g.Ingest(t.Context(), [][]inbox.Record{batch, backwards}[i%2]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	other := batch[0]
	other.Source.Partition = 3
	must(t, g.Ingest(t.Context(), []inbox.Record{other, {Value: []byte("refuse, from no topic")}, {Value: []byte("refuse, from no topic")}}))
	if got := one[string](t, s.pool, `select string_agg(concat_ws(' ', source_topic, source_partition, source_offset), ', ' order by source_partition, source_offset, id)
		from inboxd.quarantine`); got != "t 2 0, t 2 1, t 2 3, t 2 4, t 3 0, , " {
		t.Errorf("quarantine holds %s", got)
	}
	s.whole(1)
	if got := g.Counts(); got.Stored != 1 || got.Duplicates != 39 || got.Quarantined != 163 {
		t.Errorf("counted %+v", got)
	}
}

// Refused and stored records of a batch come together: both or neither.
func TestIngestIsOneTransaction(t *testing.T) {
	t.Parallel()
	s := setup(t)
	g, book := s.ingester()
	batch := records("refuse this", "1 a Paid x", "1 a Paid y")
	s.exec(`alter table inboxd.aggregates add constraint closed check (aggregate_id <> 'a')`)
	if err := g.Ingest(t.Context(), batch); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Fatalf("storing an event failed: %v", err)
	}
	s.exec(`alter table inboxd.aggregates drop constraint closed`)
	s.exec(`alter table inboxd.quarantine add constraint closed check (source_offset <> 0)`)
	if err := g.Ingest(t.Context(), batch); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Fatalf("quarantine failed: %v", err)
	}
	s.whole(0)
	if got := one[int](t, s.pool, `select count(*) from inboxd.quarantine`); got != 0 || g.Counts() != (inbox.Counts{}) || book.String() != "" {
		t.Errorf("%d records in quarantine, counts %+v, log %s", got, g.Counts(), book)
	}
	s.exec(`alter table inboxd.quarantine drop constraint closed`)
	must(t, g.Ingest(t.Context(), batch))
	if got := g.Counts(); got != (inbox.Counts{Stored: 1, Conflicts: 1, Quarantined: 1}) {
		t.Errorf("counted %+v", got)
	}
}

func TestIngestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("first", "a"))
	holder := s.begin()
	_, err := holder.Exec(t.Context(), `select 1 from inboxd.aggregates for update`)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	conn := s.connect()
	go func() {
		_, err := s.on(conn).Put(ctx, []inbox.Event{event("second", "a")})
		done <- err
	}()
	s.untilBlocked(conn, holder.Conn())
	cancel()
	if err := soon(t, done); !errors.Is(err, context.Canceled) {
		t.Errorf("Put answers %v", err)
	}
	must(t, holder.Rollback(t.Context()))
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("decode: %w", inbox.Refuse("not-json", "at byte %d", 3))
	var refusal *inbox.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != "not-json" || err.Error() != "decode: not-json: at byte 3" {
		t.Errorf("got %v", err)
	}
}
