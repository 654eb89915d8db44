package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/admin"
)

// errors lists what a filter means, as "fingerprint lanes/stuck/backoff/paused types".
func (s *stage) errors(f admin.ErrorFilter) string {
	s.t.Helper()
	groups, err := s.Errors(s.t.Context(), f)
	must(s.t, err)
	list := make([]string, len(groups))
	for i, g := range groups {
		list[i] = fmt.Sprintf("%s %d/%d/%d/%d %s", g.Fingerprint, g.Lanes, g.Stuck, g.Backoff, g.Paused, strings.Join(g.EventTypes, "+"))
	}
	return strings.Join(list, ", ")
}

func TestErrors(t *testing.T) {
	t.Parallel()
	s := setup(t)
	equal(t, s.errors(admin.ErrorFilter{}), "")
	s.put("Paid", 1, "a", "b", "c", "d", "e", "f", "g", "h", "i")
	s.put("Shipped", 1, "j", "k")
	s.hold(admin.Stuck, 5, "no account 1", "f1", "a", "b", "j")
	s.hold(admin.Stuck, 2, "no account 2", "f1", "c")
	s.hold(admin.Backoff, 1, "busy", "f2", "d", "e", "f")
	s.hold(admin.Stuck, 9, "busy", "f2", "k")
	// Neither what a person paused nor what runs again is held by its error.
	s.hold(admin.Paused, 1, "busy", "f3", "g")
	s.hold(admin.Ready, 1, "busy", "f3", "h")
	equal(t, s.errors(admin.ErrorFilter{}), "f1 4/4/0/0 Paid+Shipped, f2 4/1/3/0 Paid+Shipped")
	equal(t, s.errors(admin.ErrorFilter{Limit: 1}), "f1 4/4/0/0 Paid+Shipped")
	equal(t, s.errors(admin.ErrorFilter{Type: "Shipped"}), "f1 1/1/0/0 Shipped, f2 1/1/0/0 Shipped")
	equal(t, s.errors(admin.ErrorFilter{Type: "Other"}), "")
	if _, err := s.Errors(t.Context(), admin.ErrorFilter{Limit: -1}); !errors.Is(err, admin.ErrInvalid) {
		t.Error(err)
	}

	// The message is the latest, the first time that of the first failure of a head.
	s.exec(`update inboxd.lanes set error_at = '2026-01-31 12:00Z'::timestamptz + lane_id * interval '1 minute'`)
	s.exec(`insert into inboxd.failures (lane_id, position, attempt, at, process_id, fingerprint, message)
		select lane_id, p, 1, '2026-01-30 10:00Z'::timestamptz + h * interval '1 hour', 1, f, 'x'
		from inboxd.lanes, (values (0, 'f1', 0), (1, 'f0', 0), (1, 'f1', 1)) v(p, f, h) where aggregate_id = 'b'`)
	groups, err := s.Errors(t.Context(), admin.ErrorFilter{Limit: 1})
	must(t, err)
	b, err := json.Marshal(groups)
	must(t, err)
	equal(t, string(b), `[{"fingerprint":"f1","message":"no account 1","event_types":["Paid","Shipped"],"lanes":4,"stuck":4,`+
		`"first_at":"2026-01-30T11:00:00Z","last_at":"2026-01-31T12:10:00Z","backoff":0,"paused":0,"breakers":[]}]`)
}

// What waits for a dependency that is down is listed with the breaker, and a
// breaker that holds nothing at the moment as well.
func TestErrorsOfBreakers(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, "a", "b", "c")
	s.put("Shipped", 1, "d")
	s.hold(admin.Paused, 1, "connection refused", "f1", "a", "b", "d")
	s.exec(`update inboxd.lanes set paused_type = case when aggregate_id = 'd' then 'Shipped' else 'Paid' end where state = 'paused'`)
	s.exec(`insert into inboxd.breakers (event_type, opened_at, reason, fingerprint, next_probe_at, probes) values
		('Paid', '2026-01-31 12:00Z', 'connection refused', 'f1', '2026-01-31 12:01Z', 3),
		('Shipped', '2026-01-31 12:00Z', 'connection refused', 'f1', '2026-01-31 12:01Z', 0),
		('Viewed', '2026-01-31 12:00Z', '503', 'f9', '2026-01-31 12:01Z', 0)`)
	equal(t, s.errors(admin.ErrorFilter{}), "f1 3/0/0/3 Paid+Shipped, f9 0/0/0/0 Viewed")
	equal(t, s.errors(admin.ErrorFilter{Limit: 1}), "f1 3/0/0/3 Paid+Shipped")
	equal(t, s.errors(admin.ErrorFilter{Type: "Paid"}), "f1 2/0/0/2 Paid")
	groups, err := s.Errors(t.Context(), admin.ErrorFilter{})
	must(t, err)
	b, err := json.Marshal(groups[0].Breakers)
	must(t, err)
	equal(t, string(b), `[{"event_type":"Paid","opened_at":"2026-01-31T12:00:00Z","reason":"connection refused","next_probe_at":"2026-01-31T12:01:00Z","probes":3},`+
		`{"event_type":"Shipped","opened_at":"2026-01-31T12:00:00Z","reason":"connection refused","next_probe_at":"2026-01-31T12:01:00Z","probes":0}]`)
	equal(t, groups[1].Message, "503")
}
