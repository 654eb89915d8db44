package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox"
)

// quarantined puts records into quarantine as ingest does. A record is
// "OFFSET=VALUE", of partition 0 of orders.
func (s *stage) quarantined(records ...string) {
	s.t.Helper()
	g := &inbox.Ingester{Store: s.store, Decoder: words{}}
	for _, text := range records {
		must(s.t, g.Ingest(context.Background(), []inbox.Record{{Value: []byte("?")}}))
		offset, value, _ := strings.Cut(text, "=")
		s.exec(`update inboxd.quarantine set source_topic = 'orders', source_partition = 0, source_offset = $1::bigint, value = $2
			where id = (select max(id) from inboxd.quarantine)`, offset, []byte(value))
	}
}

// words makes events of "AGGREGATE ID TYPE PAYLOAD" and refuses all else.
type words struct{}

func (words) Decode(r inbox.Record) (inbox.Event, error) {
	f := strings.Fields(string(r.Value))
	if len(f) != 4 {
		return inbox.Event{}, inbox.Refuse("not-four", "The value has %d words.", len(f))
	}
	return inbox.Event{AggregateID: f[0], ID: f[1], Type: f[2], Payload: []byte(f[3])}, nil
}

func ingester() *inbox.Ingester {
	return &inbox.Ingester{Decoder: words{}, Ignored: func(t string) bool { return t == "Viewed" }}
}

func requeueing() admin.Requeueing { return admin.Requeueing{Decode: ingester().Decode} }

// outcomes are "id outcome", and an ! behind what lost its place.
func outcomes(rows []admin.Requeued) string {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = fmt.Sprintf("%d %s", r.ID, r.Outcome)
		if r.OutOfOrder {
			list[i] += "!"
		}
	}
	return strings.Join(list, ", ")
}

func (s *stage) stored() string {
	return one[string](s, `select coalesce(string_agg(event_id || '@' || position, ' ' order by aggregate_id, position), '') from inboxd.inbox`)
}

func (s *stage) left() string {
	return one[string](s, `select coalesce(string_agg(id::text, ' ' order by id), '') from inboxd.quarantine`)
}

func TestRequeue(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.quarantined("10=a ev-1 Paid 1", "11=a ev-2 Paid 1", "12=a ev-2 Paid 1", "13=a ev-2 Paid 2", "14=a ev-3 Viewed 1", "15=a b")
	dry := requeueing()
	dry.DryRun = true
	rows, err := s.Requeue(t.Context(), admin.By{}, dry, 1, 2, 9)
	equal(t, outcomes(rows), "1 stored, 2 stored")
	if !errors.Is(err, admin.ErrNotFound) || err.Error() != "there is no record 9 in quarantine" {
		t.Error(err)
	}
	equal(t, s.stored()+s.left(), "1 2 3 4 5 6")

	rows, err = s.Requeue(t.Context(), patching, requeueing(), 6, 2, 1, 2, 3, 4, 5)
	equal(t, outcomes(rows), "1 stored, 2 stored, 3 duplicate, 5 ignored")
	if !errors.Is(err, admin.ErrRefused) {
		t.Error(err)
	}
	equal(t, err, `record 4 cannot be stored: an event "ev-2" with another content is stored already; see it with: inboxd events show ev-2`+
		"\nrecord 6 is still no event: not-four: The value has 2 words.")
	equal(t, s.stored()+" "+s.left(), "ev-1@1 ev-2@2 4 6")
	d := s.event("ev-1")
	equal(t, fmt.Sprint(*d.Source, " ", string(d.Payload)), "{orders 0 10} 1")
	equal(t, one[string](s, `select string_agg(concat_ws(' ', split_part(actor, '/', 2), action, aggregate_id, event_id, reason), ', ' order by id) from inboxd.audit`),
		"ada requeue a ev-1 amount was in cents, ada requeue a ev-2 amount was in cents, ada requeue a ev-2 amount was in cents, ada requeue amount was in cents")
	equal(t, one[string](s, `select detail::text from inboxd.audit order by id limit 1`),
		`{"id": 1, "size": 13, "topic": "orders", "offset": 10, "reason": "not-four", "sha256": "`+
			one[string](s, `select encode(sha256('a ev-1 Paid 1'), 'hex')`)+`", "outcome": "stored", "partition": 0, "out_of_order": false}`)
	s.run(1)
	equal(t, one[string](s, `select string_agg(event_id, ' ' order by n) from effects`), "ev-1 ev-2")
}

// An event behind which others of its partition were stored has lost its place,
// and is stored only by who accepts that.
func TestRequeueOfWhatWasOvertaken(t *testing.T) {
	t.Parallel()
	s := setup(t)
	event := func(id, aggregate string, partition int32, offset int64) inbox.Event {
		return inbox.Event{ID: id, AggregateID: aggregate, Type: "Paid", Source: inbox.Source{Topic: "orders", Partition: partition, Offset: offset}}
	}
	s.quarantined("10=a late Paid 1", "20=a kept Paid 1", "11=b other Paid 1", "12=a known Paid 1")
	_, err := s.store.Put(t.Context(), []inbox.Event{event("before", "a", 0, 9), event("after", "a", 0, 15), event("b-1", "b", 1, 99),
		{ID: "known", AggregateID: "a", Type: "Paid", Payload: []byte("1")}})
	must(t, err)

	rows, err := s.Requeue(t.Context(), admin.By{}, requeueing(), 1, 2, 3, 4)
	equal(t, outcomes(rows), "2 stored, 3 stored, 4 duplicate")
	var lost *admin.OutOfOrderError
	if !errors.Is(err, admin.ErrRefused) || !errors.As(err, &lost) || lost.ID != 1 ||
		err.Error() != `record 1 lost its place: the aggregate "a" has moved on to after, which came after it, and late would run behind that` {
		t.Error(err)
	}
	equal(t, s.left(), "1")
	how := requeueing()
	how.OutOfOrder = true
	rows, err = s.Requeue(t.Context(), admin.By{}, how, 1)
	must(t, err)
	equal(t, outcomes(rows), "1 stored!")
	equal(t, s.stored(), "before@1 after@2 known@3 kept@4 late@5 b-1@1 other@2")
	equal(t, one[bool](s, `select (detail->>'out_of_order')::boolean from inboxd.audit order by id desc limit 1`), true)
}

// Of lines, which have no offset, the time tells what came later.
func TestRequeueOfLines(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.quarantined("1=a ev-1 Paid 1")
	s.exec(`update inboxd.quarantine set source_topic = null, source_partition = null, source_offset = null`)
	s.put("Paid", 1, "a")
	_, err := s.Requeue(t.Context(), admin.By{}, requeueing(), 1)
	var lost *admin.OutOfOrderError
	if !errors.As(err, &lost) {
		t.Error(err)
	}
	s.exec(`update inboxd.quarantine set received_at = now() + interval '1 hour'`)
	rows, err := s.Requeue(t.Context(), admin.By{}, requeueing(), 1)
	must(t, err)
	equal(t, outcomes(rows), "1 stored")
}

func TestRequeueAll(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`insert into inboxd.quarantine (reason, detail, source_topic, source_partition, source_offset, value)
		select case when g % 3 = 0 then 'odd' else 'not-four' end, 'x', 'orders', 0, g,
			convert_to(case when g % 100 = 1 then 'bad' else 'a-' || g % 7 || ' ev-' || g || ' Paid 1' end, 'UTF8')
		from generate_series(1, 1300) g`)
	var told []int64
	p, err := s.RequeueAll(t.Context(), admin.By{}, requeueing(), admin.QuarantineFilter{Reason: "not-four", Limit: 700},
		func(r admin.Requeued, _ error) { told = append(told, r.ID) })
	must(t, err)
	equal(t, p.Done+p.Left, 700)
	equal(t, one[int](s, `select count(*) from inboxd.inbox`), p.Done)
	equal(t, one[int](s, `select count(*) from inboxd.quarantine`), 1300-p.Done)
	equal(t, slices.IsSorted(told), true)
	equal(t, one[bool](s, `select bool_and(ordered) from (select source_offset > lag(source_offset, 1, 0) over (partition by lane_id order by position) as ordered from inboxd.inbox) o`), true)

	// What stays is met once, and the rest has lost its place by now.
	p, err = s.RequeueAll(t.Context(), admin.By{}, requeueing(), admin.QuarantineFilter{Reason: "odd"}, nil)
	must(t, err)
	equal(t, p.Done+p.Left, 433)
	if p.Left < 300 {
		t.Errorf("only %d were left", p.Left)
	}
}

func TestDiscard(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.quarantined("10=a", "11=b")
	s.exec(`insert into inboxd.quarantine (reason, detail) values ('tombstone', 'x')`)
	if _, err := s.Discard(t.Context(), admin.By{}, 1); !errors.Is(err, admin.ErrInvalid) {
		t.Error(err)
	}
	done, err := s.Discard(t.Context(), patching, 3, 9, 1, 3)
	equal(t, done, []int64{1, 3})
	if !errors.Is(err, admin.ErrNotFound) {
		t.Error(err)
	}
	equal(t, s.left(), "2")
	equal(t, one[string](s, `select string_agg(concat_ws(' ', split_part(actor, '/', 2), action, reason, detail), E'\n' order by id) from inboxd.audit`),
		`ada discard amount was in cents {"id": 1, "size": 1, "topic": "orders", "offset": 10, "reason": "not-four", "sha256": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb", "partition": 0}`+"\n"+
			`ada discard amount was in cents {"id": 3, "size": 0, "topic": null, "offset": null, "reason": "tombstone", "sha256": null, "partition": null}`)
}

func TestDiscardAll(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`insert into inboxd.quarantine (received_at, reason, detail, source_topic, source_partition, source_offset)
		select '2026-01-31 12:00Z'::timestamptz + g * interval '1 minute', 'r' || g % 2, 'x', 't' || g % 3, 0, g from generate_series(1, 1300) g`)
	var steps []int
	p, err := s.DiscardAll(t.Context(), patching, admin.QuarantineFilter{Reason: "r1", Limit: 620}, func(p admin.QuarantineProgress) { steps = append(steps, p.Done) })
	must(t, err)
	equal(t, fmt.Sprint(p, steps), "{620 0} [500 620]")
	// The newest, as they are listed.
	equal(t, one[string](s, `select string_agg(id::text, ' ' order by id) from inboxd.quarantine where reason = 'r1' and id < 64`),
		"1 3 5 7 9 11 13 15 17 19 21 23 25 27 29 31 33 35 37 39 41 43 45 47 49 51 53 55 57 59")
	equal(t, one[int](s, `select count(*) from inboxd.audit`), 620)
	n, err := s.CountQuarantine(t.Context(), admin.QuarantineFilter{Topic: "t0"})
	must(t, err)
	p, err = s.DiscardAll(t.Context(), patching, admin.QuarantineFilter{Topic: "t0"}, nil)
	must(t, err)
	equal(t, p.Done, n)
}

// Two operators who want the same records: each record is changed by one of them.
func TestDiscardBesideAnother(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.quarantined("10=a", "11=b")
	tx, err := s.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `select from inboxd.quarantine where id = 1 for update`)
	must(t, err)
	_, err = s.Discard(t.Context(), patching, 1)
	if !errors.Is(err, admin.ErrRefused) || err.Error() != "record 1 could not be changed: for 1s somebody else was changing it" {
		t.Error(err)
	}
	if _, err = s.Requeue(t.Context(), patching, requeueing(), 1); !errors.Is(err, admin.ErrRefused) {
		t.Error(err)
	}
	p, err := s.DiscardAll(t.Context(), patching, admin.QuarantineFilter{}, nil)
	must(t, err)
	equal(t, p, admin.QuarantineProgress{Done: 1, Left: 1})
}
