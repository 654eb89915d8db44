package admin_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/admin"
)

func TestVerifyOfOneAggregate(t *testing.T) {
	t.Parallel()
	s := audited(t)
	s.exec(`delete from inboxd.inbox where event_id in ('order-1/Paid-4', 'order-2/Paid-4')`)
	equal(t, s.violations(admin.VerifyOptions{AggregateID: "order-1"}), []string{"gap order-1 4"})
	equal(t, s.violations(admin.VerifyOptions{AggregateID: "order-0"}), []string{})
	r, err := s.Verify(t.Context(), admin.VerifyOptions{AggregateID: "order-2"})
	must(t, err)
	equal(t, fmt.Sprint(r.Aggregates, r.Events), "1 9")
	s.exec(`select inboxd.open_segment()`)
	s.exec(`insert into inboxd.inbox select lane_id, 11, now(), now(), null, null, null, 2, event_id, aggregate_id, event_type, null, null, payload
		from inboxd.inbox where event_id = 'order-0/Paid-7'`)
	s.exec(`update inboxd.aggregates set last_position = 11, pending = true where aggregate_id = 'order-0'`)
	equal(t, s.violations(admin.VerifyOptions{AggregateID: "order-0"}), []string{"double-event order-0 11 order-0/Paid-7"})
	equal(t, s.violations(admin.VerifyOptions{AggregateID: "order-3"}), []string{})
}

func TestVerifySince(t *testing.T) {
	t.Parallel()
	s := audited(t)
	s.exec(`update inboxd.inbox set received_at = now() - interval '2 hours' where lane_id <> ` + lane("order-2"))
	s.exec(`update inboxd.runs set at = now() - interval '2 hours' where lane_id = ` + lane("order-1"))
	s.exec(`delete from inboxd.inbox where event_id in ('order-0/Paid-4', 'order-2/Paid-4')`)
	s.exec(`update inboxd.runs set first_position = 4 where last_position = 6 and lane_id in (` + lane("order-1") + `, ` + lane("order-2") + `)`)
	s.exec(`update inboxd.aggregates set pending = false where aggregate_id = 'order-5'`) // what is so now
	equal(t, s.violations(admin.VerifyOptions{}), []string{"gap order-0 4", "overlap order-1 4 order-1/Paid-4", "gap order-2 4",
		"overlap order-2 4", "stopped-without-reason order-5 1 order-5/Paid-1"})
	o := admin.VerifyOptions{Since: time.Now().Add(-time.Hour)}
	equal(t, s.violations(o), []string{"gap order-2 4", "overlap order-2 4", "stopped-without-reason order-5 1 order-5/Paid-1"})
	r, err := s.Verify(t.Context(), o)
	must(t, err)
	equal(t, fmt.Sprint(r.Aggregates, r.Events), "6 9")
	o.Since = time.Now().Add(time.Hour)
	equal(t, s.violations(o), []string{"stopped-without-reason order-5 1 order-5/Paid-1"})
}

// However much is wrong, only so much is kept; the rest is counted.
func TestVerifyKeepsSoManyViolations(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, names(800)...)
	s.exec(`delete from inboxd.inbox where position = 2`)
	for limit, want := range map[int]string{0: "800 0", 10: "10 790", 800: "800 0"} {
		r, err := s.Verify(t.Context(), admin.VerifyOptions{Limit: limit})
		must(t, err)
		equal(t, fmt.Sprint(len(r.Violations), r.More), want)
	}
}

// The oldest events were dropped with their ledger, as retention does it, and an
// event that waits keeps what follows it.
func TestVerifyAfterRetention(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, names(5)...)
	s.run(1)
	s.exec(`select inboxd.open_segment()`)
	s.put("Flaky", 3, names(3)...)
	s.put("Broken", 1, "order-1", "late")
	s.run(1)
	equal(t, s.violations(admin.VerifyOptions{}), []string{})
	s.exec(`drop table inboxd.inbox_1, inboxd.runs_1`)
	s.exec(`delete from inboxd.segments where segment = 1`)
	equal(t, s.violations(admin.VerifyOptions{}), []string{})
	s.put("Paid", 7, names(5)...)
	s.exec(`select inboxd.open_segment()`)
	s.put("Flaky", 7, "order-0", "new")
	s.run(2)
	equal(t, s.violations(admin.VerifyOptions{}), []string{})
	for sql, want := range map[string]string{
		`delete from inboxd.inbox where aggregate_id = 'order-1' and event_type = 'Broken'`:     "gap order-1 7",
		`delete from inboxd.inbox where aggregate_id = 'order-0' and position = 5`:              "gap order-0 5",
		`delete from inboxd.runs where lane_id = ` + lane("order-2") + ` and last_position = 5`: "passed-over order-2 5 order-2/Flaky-2",
		`delete from inboxd.runs where lane_id = ` + lane("order-2"):                            "cursor-ahead order-2 4 order-2/Flaky-1",
	} {
		restore := s.keepLedger()
		s.exec(sql)
		if got := s.violations(admin.VerifyOptions{}); !strings.HasPrefix(strings.Join(got, ", "), want) || len(got) != 1 {
			t.Errorf("%s: got %v, want %s", sql, got, want)
		}
		restore()
	}
}

// keepLedger is keep for what this test breaks.
func (s *stage) keepLedger() (restore func()) {
	s.t.Helper()
	s.exec(`drop schema if exists kept cascade; create schema kept`)
	for _, table := range []string{"inbox", "runs"} {
		s.exec(`create table kept.` + table + ` as table inboxd.` + table)
	}
	return func() {
		for _, table := range []string{"inbox", "runs"} {
			s.exec(`delete from inboxd.` + table)
			s.exec(`insert into inboxd.` + table + ` table kept.` + table)
		}
	}
}

// A replay sets the cursor back and begins a generation; its runs stand beside
// those that they repeat.
func TestVerifyOfReplays(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 6, "order-1", "order-2")
	s.run(1)
	replay := func(from int) {
		s.exec(`update inboxd.lanes set replayed_to = greatest(replayed_to, cursor), cursor = $1 - 1, generation = generation + 1,
			version = version + 1 where aggregate_id = 'order-1'`, from)
		s.exec(`update inboxd.aggregates set pending = true where aggregate_id = 'order-1'`)
	}
	for _, from := range []int{3, 5, 1, 7} {
		replay(from)
		equal(t, s.violations(admin.VerifyOptions{}), []string{})
		if from == 5 {
			continue // replayed again before it ran
		}
		s.run(1)
		equal(t, s.violations(admin.VerifyOptions{}), []string{})
	}
	s.put("Flaky", 2, "order-1")
	s.run(1)
	equal(t, s.violations(admin.VerifyOptions{}), []string{})
	s.exec(`update inboxd.runs set at = '2020-01-01' where generation = 3 and last_position = 2`)
	equal(t, s.violations(admin.VerifyOptions{}), []string{"out-of-order order-1 1 order-1/Paid-1"})
}

func TestReportJSON(t *testing.T) {
	t.Parallel()
	s := audited(t)
	s.exec(`update inboxd.runs set first_position = 4 where last_position = 6 and lane_id = ` + lane("order-2"))
	r, err := s.Verify(t.Context(), admin.VerifyOptions{})
	must(t, err)
	b, err := json.Marshal(r)
	must(t, err)
	equal(t, string(b), `{"aggregates":6,"events":41,"violations":[{"kind":"overlap","aggregate_id":"order-2","event_id":"order-2/Paid-4","position":4,`+
		`"detail":"event 4 ran twice: the ledger has a run of 3 to 4 and a run of 4 to 6"}]}`)
}
