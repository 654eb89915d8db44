package admin_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/admin"
)

func (s *stage) audit(f admin.AuditFilter) string {
	s.t.Helper()
	var list []string
	for e, err := range s.Audit(s.t.Context(), f) {
		must(s.t, err)
		list = append(list, fmt.Sprint(e.ID))
	}
	if f.Limit == 0 {
		n, err := s.CountAudit(s.t.Context(), f)
		must(s.t, err)
		equal(s.t, n, len(list))
	}
	return strings.Join(list, " ")
}

func TestAudit(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`insert into inboxd.audit (at, actor, action, aggregate_id, event_id, reason, detail) values
		('2026-01-31 12:00Z', 'shop/ada', 'retry', 'a', 'ev-1', 'fixed', '{"attempts": 3}'),
		('2026-01-31 12:01Z', 'shop/bob', 'skip', 'a', 'ev-2', null, null),
		('2026-01-31 12:02Z', 'shop', 'retry', 'b', null, null, null),
		('2026-01-31 12:03Z', 'ops/ada', 'discard', null, null, 'spam', null)`)
	at := func(minute int) time.Time { return time.Date(2026, 1, 31, 12, minute, 0, 0, time.UTC) }
	for _, tc := range []struct {
		f    admin.AuditFilter
		want string
	}{
		{admin.AuditFilter{}, "4 3 2 1"},
		{admin.AuditFilter{Limit: 2}, "4 3"},
		{admin.AuditFilter{AggregateID: "a"}, "2 1"},
		{admin.AuditFilter{AggregateID: "a", Action: "retry"}, "1"},
		{admin.AuditFilter{Action: "retry"}, "3 1"},
		{admin.AuditFilter{Actor: "ada"}, "4 1"},
		{admin.AuditFilter{Actor: "shop"}, "3 2 1"},
		{admin.AuditFilter{Actor: "shop/ada"}, "1"},
		{admin.AuditFilter{From: at(1), Until: at(3)}, "3 2"},
		{admin.AuditFilter{AggregateID: "a\x00"}, ""},
	} {
		equal(t, fmt.Sprint(tc.f, s.audit(tc.f)), fmt.Sprint(tc.f, tc.want))
	}
	for e, err := range s.Audit(t.Context(), admin.AuditFilter{Action: "retry", AggregateID: "a"}) {
		must(t, err)
		equal(t, fmt.Sprint(e.At, e.Actor, *e.AggregateID, *e.EventID, *e.Reason, string(e.Detail)),
			`2026-01-31 12:00:00 +0000 UTCshop/adaaev-1fixed{"attempts": 3}`)
	}
	for _, f := range []admin.AuditFilter{{Limit: -1}, {From: at(2), Until: at(2)}} {
		if _, err := s.CountAudit(t.Context(), f); !errors.Is(err, admin.ErrInvalid) {
			t.Error(err)
		}
	}
}

// The audit is read in pages, each change once.
func TestAuditInPages(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`insert into inboxd.audit (actor, action, aggregate_id) select 'x', 'retry', 'a-' || g % 2 from generate_series(1, 1200) g`)
	for limit, want := range map[int]int{0: 1200, 500: 500, 700: 700} {
		ids := strings.Fields(s.audit(admin.AuditFilter{Limit: limit}))
		equal(t, fmt.Sprintf("%d %s %s", len(ids), ids[0], ids[want-1]), fmt.Sprint(want, 1200, 1201-want))
	}
	equal(t, len(strings.Fields(s.audit(admin.AuditFilter{AggregateID: "a-0"}))), 600)
}
