package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/pgtest"
)

func TestPutNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if got := s.put(); got != "" {
		t.Errorf("no events have the outcomes %q", got)
	}
}

func TestPutKeepsTheOrderOfEachAggregate(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for round := range 3 {
		all := events(fmt.Sprintf("r%d", round), 60, 7)
		if got := s.put(all...); got != strings.Repeat("s", 60) {
			t.Errorf("outcomes %q of new events", got)
		}
	}
	s.whole(180)
	if got := one[int](t, s.pool, `select count(*) from (
		select position, row_number() over (partition by aggregate_id
			order by split_part(event_id, '-', 1), split_part(event_id, '-', 2)::int) as want from inboxd.inbox) o
		where position <> want`); got != 0 {
		t.Errorf("%d events are not in the order in which they were given", got)
	}
}

func TestPutOutcomes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	stored := event("stored", "a")
	s.put(stored)
	change := func(f func(*inbox.Event)) inbox.Event {
		e := stored
		f(&e)
		return e
	}
	sequence := int64(7)
	for _, test := range []struct {
		name  string
		batch []inbox.Event
		want  string
	}{
		{"new", []inbox.Event{event("n1", "a"), event("n2", "b")}, "ss"},
		{"duplicate", []inbox.Event{stored}, "d"},
		{"duplicate between new ones", []inbox.Event{event("n3", "a"), stored, event("n4", "a")}, "sds"},
		{"another payload", []inbox.Event{change(func(e *inbox.Event) { e.Payload = []byte("x") })}, "c"},
		{"no payload", []inbox.Event{change(func(e *inbox.Event) { e.Payload = nil })}, "c"},
		{"another aggregate", []inbox.Event{change(func(e *inbox.Event) { e.AggregateID = "b" })}, "c"},
		{"an aggregate that is new", []inbox.Event{change(func(e *inbox.Event) { e.AggregateID = "new" })}, "c"},
		{"another type", []inbox.Event{change(func(e *inbox.Event) { e.Type = "Shipped" })}, "c"},
		{"another source, time, sequence and headers", []inbox.Event{change(func(e *inbox.Event) {
			e.Source = inbox.Source{Topic: "other", Partition: 1, Offset: 2}
			e.OccurredAt = time.Now()
			e.Sequence = &sequence
			e.Headers = []inbox.Header{{Name: "n", Value: []byte("v")}}
		})}, "d"},
		{"twice in one batch", []inbox.Event{event("t1", "a"), event("t1", "a")}, "sd"},
		{"thrice, once with another payload", []inbox.Event{event("t2", "a"), event("t3", "a"), event("t2", "a"),
			{ID: "t2", AggregateID: "a", Type: "Paid"}, event("t3", "a")}, "ssdcd"},
		{"twice in one batch, for two aggregates", []inbox.Event{event("t4", "b"), event("t4", "a"), event("t5", "a")}, "scs"},
		{"a conflict first, then the same as stored", []inbox.Event{
			change(func(e *inbox.Event) { e.Payload = []byte("x") }), stored}, "cd"},
	} {
		before := one[int](t, s.pool, `select count(*) from inboxd.inbox`)
		if got := s.put(test.batch...); got != test.want {
			t.Errorf("%s: outcomes %q, want %q", test.name, got, test.want)
		}
		s.whole(before + strings.Count(test.want, "s"))
	}
	if got := one[string](t, s.pool, `select aggregate_id || ' ' || convert_from(payload, 'UTF8') from inboxd.inbox where event_id = 'stored'`); got != `a {"id":"stored"}` {
		t.Errorf("the stored event is now %s", got)
	}
}

// Identity is bytes: nothing is folded, trimmed or normalized.
func TestIDsThatLookAlikeAreDifferent(t *testing.T) {
	t.Parallel()
	s := setup(t)
	ids := []string{"order", "Order", "ORDER", "order ", "order  ", " order", "order\t", "order\n",
		"\u00e9", "e\u0301", "\ufb01", "fi", "stra\u00dfe", "strasse", "\u00c5", "\u212b", "\u200border", "1", "01", "1.0", "\U0001F600", "日本",
		"null", "\\x00", "{}", "{a,b}", `"`, `""`, "'", ",", "NULL", strings.Repeat("x", inbox.MaxName), strings.Repeat("x", inbox.MaxName-1) + "y"}
	for _, order := range [][]string{ids, ids} {
		var all []inbox.Event
		for _, id := range order {
			all = append(all, event(id, id))
		}
		want := strings.Repeat("s", len(ids))
		if one[int](t, s.pool, `select count(*) from inboxd.inbox`) > 0 {
			want = strings.Repeat("d", len(ids))
		}
		if got := s.put(all...); got != want {
			t.Errorf("outcomes %s, want %s", got, want)
		}
	}
	s.whole(len(ids))
	for _, id := range ids {
		if got := s.lane(id); got != "1:"+id {
			t.Errorf("the lane of %q holds %q", id, got)
		}
	}
}

func TestPayloadIsKeptByteForByte(t *testing.T) {
	t.Parallel()
	s := setup(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	payloads := map[string][]byte{
		"nil":            nil,
		"empty":          {},
		"nul":            []byte("a\x00b\x00"),
		"nul escape":     []byte(`{"a":"\u0000","b":"\ud800"}`),
		"every byte":     every,
		"invalid utf-8":  []byte("\xff\xfe\xc0\x80\xed\xa0\x80"),
		"hundred digits": []byte(`{"n":` + strings.Repeat("1234567890", 10) + `.5e-400}`),
		"megabyte":       bytes.Repeat([]byte{0, 0xff, '{', '\\'}, 1<<18),
		"hex literal":    []byte(`\x41`),
		"spaces":         []byte(" {\n}\t "),
	}
	for name, payload := range payloads {
		if got := s.put(inbox.Event{ID: name, AggregateID: "a", Type: "Paid", Payload: payload}); got != "s" {
			t.Errorf("%s: outcome %q", name, got)
		}
		if got := one[[]byte](t, s.pool, `select payload from inboxd.inbox where event_id = $1`, name); !bytes.Equal(got, payload) {
			t.Errorf("%s: %d bytes came back changed, of %d", name, len(got), len(payload))
		}
		if got := s.put(inbox.Event{ID: name, AggregateID: "a", Type: "Paid", Payload: payload}); got != "d" {
			t.Errorf("%s: outcome %q of a duplicate", name, got)
		}
	}
}

func TestColumnsOfAnEvent(t *testing.T) {
	t.Parallel()
	s := setup(t)
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	occurred := time.Date(1969, 12, 31, 23, 59, 59, 123456000, time.UTC)
	s.put(
		inbox.Event{ID: "plain", AggregateID: "a", Type: "Paid"},
		inbox.Event{ID: "full", AggregateID: "a", Type: "Paid", Sequence: &low, OccurredAt: occurred,
			Source:   inbox.Source{Topic: "payments", Partition: 3, Offset: math.MaxInt64},
			Position: 77, ReceivedAt: occurred},
		inbox.Event{ID: "high", AggregateID: "a", Type: "Paid", Sequence: &high, Source: inbox.Source{Topic: "t"}},
		inbox.Event{ID: "far", AggregateID: "a", Type: "Paid", OccurredAt: time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)},
		inbox.Event{ID: "past", AggregateID: "a", Type: "Paid", OccurredAt: time.Date(-290000, 1, 1, 0, 0, 0, 0, time.UTC)},
	)
	if got := s.lane("a"); got != "1:plain 2:full 3:high 4:far 5:past" {
		t.Errorf("the lane is %s", got)
	}
	rows, err := s.pool.Query(t.Context(), `select concat_ws(' ', event_id, sequence, source_topic, source_partition, source_offset,
		occurred_at = received_at, abs(extract(epoch from received_at - clock_timestamp())) < 60) from inboxd.inbox order by position`)
	must(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	want := []string{"plain t t", "full -9223372036854775808 payments 3 9223372036854775807 f t",
		"high 9223372036854775807 t 0 0 t t", "far t t", "past t t"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := one[time.Time](t, s.pool, `select occurred_at from inboxd.inbox where event_id = 'full'`); !got.Equal(occurred) {
		t.Errorf("occurred at %v, want %v", got, occurred)
	}
}

// Within a lane no event was received before the one in front of it, although
// the calls began before they got their turn.
func TestReceivedAtFollowsPosition(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put(event("first", "a"))
	holder, waiting := s.begin(), s.connect()
	_, err := holder.Exec(t.Context(), `select 1 from inboxd.aggregates for update`)
	must(t, err)
	done := s.putBeside(waiting, event("second", "a"))
	s.untilBlocked(waiting, holder.Conn())
	waited := one[time.Time](t, s.pool, `select clock_timestamp()`)
	must(t, holder.Rollback(t.Context()))
	must(t, soon(t, done).err)
	if got := one[time.Time](t, s.pool, `select received_at from inboxd.inbox where event_id = 'second'`); got.Before(waited) {
		t.Errorf("received at %v, while it still waited at %v", got, waited)
	}
}

func TestInvalidEventsStoreNothing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	long := strings.Repeat("x", 10<<10)
	for name, test := range map[string]struct {
		bad  inbox.Event
		want string
	}{
		"no id":             {inbox.Event{AggregateID: "a", Type: "Paid"}, "event_id is empty"},
		"no aggregate":      {inbox.Event{ID: "x", Type: "Paid"}, "aggregate_id is empty"},
		"no type":           {inbox.Event{ID: "x", AggregateID: "a"}, "event_type is empty"},
		"10 kB id":          {inbox.Event{ID: long, AggregateID: "a", Type: "Paid"}, "event_id has 10240 bytes, more than the 1024 that can be stored"},
		"10 kB aggregate":   {inbox.Event{ID: "x", AggregateID: long, Type: "Paid"}, "aggregate_id has 10240 bytes"},
		"10 kB type":        {inbox.Event{ID: "x", AggregateID: "a", Type: long}, "event_type has 10240 bytes"},
		"NUL in id":         {inbox.Event{ID: "x\x00", AggregateID: "a", Type: "Paid"}, "event_id holds a NUL byte"},
		"NUL in aggregate":  {inbox.Event{ID: "x", AggregateID: "\x00", Type: "Paid"}, "aggregate_id holds a NUL byte"},
		"NUL in type":       {inbox.Event{ID: "x", AggregateID: "a", Type: "Pa\x00id"}, "event_type holds a NUL byte"},
		"NUL in topic":      {inbox.Event{ID: "x", AggregateID: "a", Type: "Paid", Source: inbox.Source{Topic: "a\x00"}}, "topic holds a NUL byte"},
		"surrogate in id":   {inbox.Event{ID: "\xed\xa0\x80", AggregateID: "a", Type: "Paid"}, "event_id is not valid UTF-8"},
		"half a rune in id": {inbox.Event{ID: "\xc3", AggregateID: "a", Type: "Paid"}, "event_id is not valid UTF-8"},
	} {
		_, err := s.store.Put(t.Context(), []inbox.Event{event("good", "a"), test.bad})
		if !errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "event 2 of 2") || len(err.Error()) > 500 {
			t.Errorf("%s: %v, want event 2 of 2 and %s", name, err, test.want)
		}
		tx := s.begin()
		if _, err := s.store.Add(t.Context(), tx, event("good", "a"), test.bad); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Add: %v, want %s", name, err, test.want)
		}
		if got := one[int](t, tx, `select count(*) from inboxd.staged`); got != 0 {
			t.Errorf("%s: %d events are staged", name, got)
		}
		must(t, tx.Rollback(t.Context()))
	}
	s.whole(0)
}

// Put says that all is stored only after the commit: an error that comes with
// the commit itself is Put's error (G1).
func TestPutReportsAFailureOfTheCommit(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'not at this commit'; end $$`)
	s.exec(`create constraint trigger refuse after insert on inboxd.inbox_1 deferrable initially deferred for each row execute function refuse()`)
	for _, mode := range execModes {
		s := s.inMode(mode)
		if _, err := s.store.Put(t.Context(), events("e", 3, 2)); err == nil || !strings.Contains(err.Error(), "not at this commit") {
			t.Errorf("%s: Put answers %v", mode, err)
		}
		s.whole(0)
	}
}

var execModes = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
	pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol}

// inMode is the stage with a pool that speaks the protocol another way, as
// behind a pooler of connections.
func (s *stage) inMode(mode pgx.QueryExecMode) *stage {
	s.t.Helper()
	config, err := pgxpool.ParseConfig(s.url)
	must(s.t, err)
	config.MaxConns = 2
	config.ConnConfig.DefaultQueryExecMode = mode
	other := *s
	other.pool = pgtest.PoolConfig(s.t, config)
	other.store = inbox.NewStore(other.pool, "")
	return &other
}

func TestEveryModeOfTheProtocol(t *testing.T) {
	t.Parallel()
	s := setup(t)
	sequence, stored := int64(5), 0
	for _, mode := range execModes {
		t.Run(mode.String(), func(t *testing.T) {
			s := s.inMode(mode)
			all := events(mode.String(), 4, 2)
			all[0].Payload = []byte("\x00\xff'\\")
			all[1].Sequence, all[1].OccurredAt = &sequence, time.Unix(1e9, 0)
			all[2].Headers = []inbox.Header{{Name: "a\x00", Value: []byte("\xff")}, {Name: "b"}}
			all[3].Source = inbox.Source{Topic: "it's", Partition: 1, Offset: 9}
			if got := s.put(append(all, all[0])...); got != "ssssd" {
				t.Errorf("outcomes %s", got)
			}
			if got := one[[]byte](t, s.pool, `select payload from inboxd.inbox where event_id = $1`, all[0].ID); !bytes.Equal(got, all[0].Payload) {
				t.Errorf("the payload came back as %q", got)
			}
			more := events(mode.String()+"-added", 3, 2)
			err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
				if got := s.add(tx, append(more, all[2])...); got != "sssd" {
					t.Errorf("outcomes %s of Add", got)
				}
				return nil
			})
			must(t, err)
			stored += 7
			s.whole(stored)
		})
	}
}

func TestSchemaOfAnotherName(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if got := inbox.NewStore(s.pool, ""); got == nil {
		t.Fatal("no store")
	}
	_, err := inbox.NewStore(s.pool, "Nobody's").Put(t.Context(), events("e", 1, 1))
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "3F000" {
		t.Errorf("storing in a schema that is not there: %v", err)
	}
}

func TestOutcomeWords(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[inbox.Outcome]string{
		inbox.Stored: "stored", inbox.Duplicate: "duplicate", inbox.Conflict: "conflict", 'x': "Outcome('x')",
	} {
		if got := outcome.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Lanes that got events are told in process after the commit, and to the other
// processes by one notification that names them.
func TestLanesAreWoken(t *testing.T) {
	t.Parallel()
	s := setup(t)
	listener := s.listen()
	var told []int64
	store := inbox.NewStore(s.pool, "", inbox.OnStored(func(lanes []int64) { told = append(told, lanes...) }))
	put := func(all ...inbox.Event) {
		_, err := store.Put(t.Context(), all)
		must(t, err)
	}
	put(events("e", 6, 3)...)
	if got := len(told); got != 3 {
		t.Errorf("told of %d lanes, want 3", got)
	}
	if got := listener.next(); len(strings.Split(got, ",")) != 3 {
		t.Errorf("notified of %q, want three lanes", got)
	}
	told = nil
	put(append(events("e", 6, 3), event("new", "agg-1"))...)
	lane := one[int64](t, s.pool, `select lane_id from inboxd.aggregates where aggregate_id = 'agg-1'`)
	if got := listener.next(); got != fmt.Sprint(lane) || len(told) != 1 || told[0] != lane {
		t.Errorf("notified of %q, told of %v; want lane %d", got, told, lane)
	}
	put(events("e", 6, 3)...)
	put(events("many", 3000, 3000)...)
	if got := listener.next(); got != "*" {
		t.Errorf("after duplicates and 3,000 lanes: notified of %.40q, want *", got)
	}
}

// A queue of notifications that some listener lets fill up fails every commit
// that notifies. Storing goes without, and leaves the lanes to the sweep.
func TestFullQueueOfNotifications(t *testing.T) {
	t.Parallel()
	s := setup(t)
	listener := s.listen()
	s.exec(`create schema full_queue`)
	s.exec(`create function full_queue.pg_notification_queue_usage() returns double precision language sql as 'select 0.9'`)
	conn := s.connect()
	_, err := conn.Exec(t.Context(), `set search_path = full_queue, pg_catalog`)
	must(t, err)
	must(t, soon(t, s.putBeside(conn, event("unheard", "quiet"))).err)
	s.put(event("heard", "loud"))
	lane := one[int64](t, s.pool, `select lane_id from inboxd.aggregates where aggregate_id = 'loud'`)
	if got := listener.next(); got != fmt.Sprint(lane) {
		t.Errorf("notified of %q, want lane %d alone", got, lane)
	}
	if !one[bool](t, s.pool, `select pending from inboxd.aggregates where aggregate_id = 'quiet'`) {
		t.Error("the sweep would not find the lane")
	}
}

type wakes struct {
	t    testing.TB
	conn *pgx.Conn
}

func (s *stage) listen() wakes {
	s.t.Helper()
	conn := s.connect()
	_, err := conn.Exec(s.t.Context(), `listen inboxd_wake`)
	must(s.t, err)
	return wakes{s.t, conn}
}

func (w wakes) next() string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	n, err := w.conn.WaitForNotification(ctx)
	must(w.t, err)
	return n.Payload
}
