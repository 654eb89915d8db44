package admin_test

import (
	"testing"
	"time"

	"github.com/inboxd/inboxd/admin"
)

const bigSQL = `
select inboxd.open_segment() from generate_series(1, 19);
insert into inboxd.aggregates (aggregate_id, last_position, pending) select 'order-' || g, 20, true from generate_series(1, 100000) g;
insert into inboxd.lanes (lane_id, aggregate_id, segment, cursor) select lane_id, aggregate_id, 3, 3 from inboxd.aggregates;
insert into inboxd.inbox (lane_id, position, received_at, occurred_at, segment, event_id, aggregate_id, event_type, payload)
	select lane_id, p, now(), now(), p, lane_id || '/' || p, aggregate_id, case when lane_id % 5000 = 0 then 'Rare' else 'Paid' end, '{"amount": 12345}'
	from generate_series(1, 20) p, inboxd.aggregates;
vacuum analyze`

func TestZZPerf(t *testing.T) {
	s := setup(t)
	for _, sql := range []string{bigSQL[:len(bigSQL)-len("vacuum analyze")], "vacuum analyze"} {
		s.exec(sql)
	}
	measure := func(name string, f func()) {
		began := time.Now()
		f()
		t.Logf("%-40s %s", name, time.Since(began).Round(time.Millisecond))
	}
	list := func(f admin.Filter) func() {
		return func() { t.Log(len(s.lanes(f))) }
	}
	cnt := func(f admin.Filter) func() {
		return func() { n, err := s.CountLanes(t.Context(), f); must(t, err); t.Log(n) }
	}
	for _, state := range []string{"ready", "stuck"} {
		if state == "stuck" {
			s.exec(`update inboxd.lanes set state = 'stuck', error_message='x', error_fingerprint='f'||lane_id%3, error_at=now(), since = now() - lane_id * interval '1 s'`)
			s.exec(`update inboxd.aggregates set parked = true`)
			s.exec("vacuum analyze")
		}
		measure(state+" rare type, limit 100", list(admin.Filter{Type: "Rare", Limit: 100}))
		measure(state+" rare type, limit 5", list(admin.Filter{Type: "Rare", Limit: 5}))
		measure(state+" rare type count", cnt(admin.Filter{Type: "Rare"}))
		measure(state+" frequent type, limit 100", list(admin.Filter{Type: "Paid", Limit: 100}))
		measure(state+" frequent type count", cnt(admin.Filter{Type: "Paid"}))
		measure(state+" all 100", list(admin.Filter{Limit: 100}))
		measure(state+" all count", cnt(admin.Filter{}))
		measure(state+" error 100", list(admin.Filter{Error: "f1", Limit: 100}))
		measure(state+" error count", cnt(admin.Filter{Error: "f1"}))
		measure(state+" older", list(admin.Filter{OlderThan: 10000 * time.Second, Limit: 100}))
		measure(state+" older count", cnt(admin.Filter{OlderThan: 10000 * time.Second}))
		measure(state+" error rare", list(admin.Filter{Error: "f1", Type: "Rare", Limit: 100}))
		measure(state+" all lanes", list(admin.Filter{}))
	}
	measure("retry page", func() {
		n := 0
		for c, err := range s.ApplyAll(t.Context(), admin.Bulk{Action: admin.Retry, By: ada, Filter: admin.Filter{Limit: 5000}}) {
			must(t, err)
			if c.Status == admin.Done { n++ }
		}
		t.Log(n)
	})
}
