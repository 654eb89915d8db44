package admin_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/inboxd/inboxd/admin"
)

func TestVerifyFindsNothingInHealth(t *testing.T) {
	t.Parallel()
	s := setup(t)
	r, err := s.Verify(t.Context(), admin.VerifyOptions{})
	must(t, err)
	equal(t, fmt.Sprint(r.Aggregates, r.Events, r.Violations), "0 0 []")

	s.put("Paid", 20, names(30)...)
	s.put("Flaky", 2, names(8)...)
	s.put("Skipped", 2, names(5)...)
	s.put("Broken", 1, names(3)...)
	s.put("Unheard", 1, "order-20")
	s.put("Paid", 10, "order-1", "order-7", "late")
	stop := make(chan struct{})
	audits := make(chan int)
	go func() {
		n := 0
		defer func() { audits <- n }()
		for {
			r, err := s.Verify(context.Background(), admin.VerifyOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			for _, v := range r.Violations {
				t.Errorf("while it runs: %+v", v)
			}
			n++
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	s.run(2)
	close(stop)
	t.Logf("%d audits while lanes ran", <-audits)
	if n := one[int](s, `select count(*) from inboxd.lanes where state = 'stuck'`); n != 4 {
		t.Fatalf("%d lanes are stuck, want 4", n)
	}
	r, err = s.Verify(t.Context(), admin.VerifyOptions{})
	must(t, err)
	equal(t, fmt.Sprint(r.Aggregates, r.Events, r.Violations), fmt.Sprint(31, 600+16+10+3+1+10, []admin.Violation{}))
}

// audited is a database with lanes in every condition: order-0 to order-2 have
// ten processed events each, in runs of two; order-3 skipped its second event;
// order-4 is stuck behind its third of five; order-5 has three that were never
// run.
func audited(t *testing.T) *stage {
	t.Helper()
	s := setup(t)
	s.put("Paid", 10, names(3)...)
	s.put("Paid", 1, "order-3")
	s.put("Skipped", 1, "order-3")
	s.put("Flaky", 1, "order-3")
	s.put("Paid", 2, "order-4")
	s.put("Broken", 1, "order-4")
	s.put("Flaky", 2, "order-4")
	s.run(1)
	s.put("Paid", 3, "order-5")
	return s
}

// violations are what Verify finds, as "kind aggregate position event".
func (s *stage) violations(o admin.VerifyOptions) []string {
	s.t.Helper()
	r, err := s.Verify(context.Background(), o)
	must(s.t, err)
	list := []string{}
	for _, v := range r.Violations {
		words := fmt.Sprint(v.Kind, " ", v.AggregateID)
		if v.Position != nil {
			words += fmt.Sprint(" ", *v.Position)
		}
		if v.EventID != nil {
			words += " " + *v.EventID
		}
		list = append(list, words)
		if v.Detail == "" {
			s.t.Errorf("%s has no detail", words)
		}
	}
	return list
}

// lane is the number of an aggregate's lane, in SQL.
func lane(aggregate string) string {
	return `(select lane_id from inboxd.aggregates where aggregate_id = '` + aggregate + `')`
}

// keep takes a copy of the tables that Verify reads; restore puts it back.
func (s *stage) keep() (restore func()) {
	s.t.Helper()
	tables := []string{"aggregates", "lanes", "inbox", "runs", "audit"}
	s.exec(`create schema kept`)
	for _, table := range tables {
		s.exec(`create table kept.` + table + ` as table inboxd.` + table)
	}
	return func() {
		s.t.Helper()
		s.exec(`drop table if exists inboxd.inbox_2, inboxd.runs_2; delete from inboxd.segments where segment > 1`)
		for _, table := range tables {
			s.exec(`delete from inboxd.` + table)
			s.exec(`insert into inboxd.` + table + ` overriding system value table kept.` + table)
		}
	}
}

func TestVerifyFindsEachKind(t *testing.T) {
	t.Parallel()
	s := audited(t)
	restore := s.keep()
	copyToNext := func(id, position string) string {
		return `select inboxd.open_segment();
			insert into inboxd.inbox select lane_id, ` + position + `, now(), now(), null, null, null, 2, ` + id + `, aggregate_id, event_type, null, null, payload
			from inboxd.inbox where event_id = 'order-0/Paid-7'`
	}
	for name, tc := range map[string]struct {
		sql  string
		want []string
	}{
		"gap among processed events":   {`delete from inboxd.inbox where event_id = 'order-1/Paid-4'`, []string{"gap order-1 4"}},
		"gap of several":               {`delete from inboxd.inbox where event_id in ('order-1/Paid-4', 'order-1/Paid-5', 'order-1/Paid-8')`, []string{"gap order-1 4", "gap order-1 8"}},
		"gap among unprocessed events": {`delete from inboxd.inbox where event_id = 'order-4/Flaky-1'`, []string{"gap order-4 4"}},
		"gap in place of the head":     {`delete from inboxd.inbox where event_id = 'order-5/Paid-1'`, []string{"gap order-5 1"}},
		"gap at the start":             {`delete from inboxd.inbox where event_id in ('order-1/Paid-1', 'order-1/Paid-2')`, []string{"gap order-1 1"}},
		"all events gone":              {`delete from inboxd.inbox where aggregate_id = 'order-1'`, []string{"gap order-1 1"}},
		"newest event gone":            {`delete from inboxd.inbox where event_id = 'order-1/Paid-10'`, []string{"tail-mismatch order-1 10"}},
		"last position too low":        {`update inboxd.aggregates set last_position = 8 where aggregate_id = 'order-1'`, []string{"tail-mismatch order-1 9 order-1/Paid-9", "cursor-ahead order-1 10 order-1/Paid-10"}},
		"one position twice":           {copyToNext(`'other'`, "7"), []string{"duplicate-position order-0 7 order-0/Paid-7"}},
		"one event twice": {copyToNext("event_id", "11") + `; update inboxd.aggregates set last_position = 11, pending = true where aggregate_id = 'order-0'`,
			[]string{"double-event order-0 11 order-0/Paid-7"}},
		"event of another aggregate":      {`update inboxd.inbox set aggregate_id = 'order-2' where event_id = 'order-1/Paid-4'`, []string{"wrong-lane order-1 4 order-1/Paid-4"}},
		"lane of another aggregate":       {`update inboxd.lanes set aggregate_id = 'order-9' where aggregate_id = 'order-1'`, []string{"wrong-lane order-1"}},
		"event ran twice":                 {`update inboxd.runs set first_position = 4 where last_position = 6 and lane_id = ` + lane("order-2"), []string{"overlap order-2 4 order-2/Paid-4"}},
		"event ran twice within another":  {`insert into inboxd.runs select lane_id, 5, 5, at, generation, process_id, segment, 'r' from inboxd.runs where last_position = 6 and lane_id = ` + lane("order-2"), []string{"overlap order-2 5 order-2/Paid-5"}},
		"run missing":                     {`delete from inboxd.runs where last_position = 6 and lane_id = ` + lane("order-2"), []string{"passed-over order-2 5 order-2/Paid-5"}},
		"first run missing":               {`delete from inboxd.runs where last_position = 2 and lane_id = ` + lane("order-2"), []string{"passed-over order-2 1 order-2/Paid-1"}},
		"runs swapped":                    {`update inboxd.runs set at = at - interval '1 hour' where last_position = 6 and lane_id = ` + lane("order-2"), []string{"out-of-order order-2 5 order-2/Paid-5"}},
		"run backwards":                   {`update inboxd.runs set first_position = 7 where last_position = 6 and lane_id = ` + lane("order-2"), []string{"passed-over order-2 5 order-2/Paid-5", "out-of-order order-2 6 order-2/Paid-6"}},
		"last run missing":                {`delete from inboxd.runs where last_position = 10 and lane_id = ` + lane("order-2"), []string{"cursor-ahead order-2 9 order-2/Paid-9"}},
		"all runs missing":                {`delete from inboxd.runs where lane_id = ` + lane("order-2"), []string{"cursor-ahead order-2 1 order-2/Paid-1"}},
		"cursor ahead":                    {`update inboxd.lanes set cursor = 2 where aggregate_id = 'order-5'`, []string{"cursor-ahead order-5 1 order-5/Paid-1"}},
		"cursor past the end":             {`update inboxd.lanes set cursor = 12 where aggregate_id = 'order-2'`, []string{"cursor-ahead order-2 11", "cursor-ahead order-2 12"}},
		"cursor behind":                   {`update inboxd.lanes set cursor = 8 where aggregate_id = 'order-2'`, []string{"cursor-behind order-2 9 order-2/Paid-9", "stopped-without-reason order-2 9 order-2/Paid-9"}},
		"generation behind":               {`update inboxd.runs set generation = 1 where last_position = 10 and lane_id = ` + lane("order-2"), []string{"cursor-behind order-2 11"}},
		"replay that begins too late":     {`update inboxd.runs set generation = 1 where last_position = 10 and lane_id = ` + lane("order-2") + `; delete from inboxd.runs where last_position = 8 and lane_id = ` + lane("order-2") + `; update inboxd.lanes set generation = 1 where aggregate_id = 'order-2'`, []string{"passed-over order-2 7 order-2/Paid-7"}},
		"replay of what never ran":        {`update inboxd.lanes set generation = 1, cursor = 2 where aggregate_id = 'order-5'; insert into inboxd.runs select ` + lane("order-5") + `, 1, 1, now(), 0, 1, 1, 'r'`, []string{"cursor-ahead order-5 2 order-5/Paid-2"}},
		"skip without a word":             {`delete from inboxd.audit where action = 'skip'`, []string{"skip-without-record order-3 2 order-3/Skipped-1"}},
		"work not pending":                {`update inboxd.aggregates set pending = false where aggregate_id = 'order-5'`, []string{"stopped-without-reason order-5 1 order-5/Paid-1"}},
		"ready and parked":                {`update inboxd.aggregates set parked = true where aggregate_id = 'order-5'`, []string{"stopped-without-reason order-5 1 order-5/Paid-1"}},
		"stuck without an error":          {`update inboxd.lanes set error_message = null where aggregate_id = 'order-4'`, []string{"stopped-without-reason order-4 3 order-4/Broken-1"}},
		"stuck behind nothing":            {`update inboxd.lanes set state = 'stuck', error_message = 'x', error_fingerprint = 'x', error_at = now() where aggregate_id = 'order-0'`, []string{"stopped-without-reason order-0 11"}},
		"backoff without a time":          {`update inboxd.lanes set state = 'backoff' where aggregate_id = 'order-4'`, []string{"stopped-without-reason order-4 3 order-4/Broken-1"}},
		"backoff without an error":        {`update inboxd.lanes set state = 'backoff', next_attempt_at = now(), error_at = null where aggregate_id = 'order-4'`, []string{"stopped-without-reason order-4 3 order-4/Broken-1"}},
		"paused by nobody":                {`update inboxd.lanes set state = 'paused', paused_reason = 'x' where aggregate_id = 'order-4'`, []string{"stopped-without-reason order-4 3 order-4/Broken-1"}},
		"event where the lane looks not":  {`update inboxd.lanes set segment = 2 where aggregate_id = 'order-4'`, []string{"stopped-without-reason order-4 3 order-4/Broken-1"}},
		"aggregate without a lane":        {`delete from inboxd.lanes where aggregate_id = 'order-4'`, []string{"orphan order-4"}},
		"lane without an aggregate":       {`delete from inboxd.aggregates where aggregate_id = 'order-4'`, []string{"orphan order-4"}},
		"events without lane, aggregate":  {`delete from inboxd.aggregates where aggregate_id = 'order-5'; delete from inboxd.lanes where aggregate_id = 'order-5'`, []string{"orphan order-5 1 order-5/Paid-1"}},
		"runs without events and lane":    {`insert into inboxd.runs select 999, 3, 1, now(), 0, 1, 1, 'r'`, []string{"orphan  1"}},
		"nothing":                         {`select 1`, nil},
		"what a lane does not have to be": {`update inboxd.aggregates set parked = false, pending = true`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s.t = t
			restore()
			s.exec(`do $do$ begin ` + plpgsql(tc.sql) + `; end $do$`)
			got := s.violations(admin.VerifyOptions{})
			equal(t, got, append([]string{}, tc.want...))
		})
	}
}

// plpgsql has a select drop its answer, as a block must.
func plpgsql(sql string) string {
	if len(sql) > 6 && sql[:6] == "select" {
		return "perform" + sql[6:]
	}
	return sql
}
