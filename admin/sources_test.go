package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/inboxd/inboxd/admin"
)

// note writes what a process says of partition 0 of the topic "orders": its
// position, nil if it no longer reads it, and five counts.
func (s *stage) note(member string, position any, counts []int64) {
	s.t.Helper()
	s.exec(`select inboxd.note_sources('g', $1, $1 || '/1', array['orders'], array[0], array['reading'], array[$2::bigint],
		array[$2::bigint], array[$2::bigint + 10], $3, array[null::text], array[null::timestamptz], '{}', '{}')`, member, position, counts)
}

func TestSources(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.note("a", 5, []int64{1, 2, 3, 4, 5})
	s.note("b", 7, []int64{1, 1, 1, 1, 1})
	s.note("a", nil, []int64{10, 0, 0, 0, 0}) // late: what it had stored before it lost the partition
	list, err := s.Sources(t.Context(), "g")
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("%d rows", len(list))
	}
	p := list[0]
	equal(t, []any{p.Topic, p.Partition, p.State, *p.Position, *p.Committed, *p.End, *p.Member, *p.Process, p.Lag == nil, p.Error == nil},
		[]any{"orders", 0, "reading", 7, 7, 17, "b", "b/1", true, true})
	equal(t, []int64{p.Stored, p.Duplicates, p.Conflicts, p.Quarantined, p.Ignored}, []int64{12, 3, 4, 5, 6})

	s.exec(`select inboxd.note_sources('g', null, null, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', array['orders'], array['it is gone'])`)
	list, err = s.Sources(t.Context(), "g")
	must(t, err)
	equal(t, []any{list[0].State, list[0].Error.Message, list[0].Error.At != nil, list[0].Member == nil, list[0].Stored}, []any{"missing", "it is gone", true, true, 12})
	if list, err = s.Sources(t.Context(), "another"); err != nil || len(list) != 0 {
		t.Errorf("another group: %v, %v", list, err)
	}
}

// A move is on record exactly if it was made in Kafka.
func TestMoveOffsets(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.note("a", 5, []int64{1, 0, 0, 0, 0})
	from := int64(5)
	moves := []admin.OffsetMove{{Partition: 0, From: &from, To: 2}}
	by := admin.By{Actor: "ada", Reason: "again"}
	refusal := errors.New("no")
	err := s.MoveOffsets(t.Context(), by, "g", "orders", moves, func(context.Context) error { return refusal })
	if !errors.Is(err, refusal) || errors.Is(err, admin.ErrNotRecorded) {
		t.Errorf("got %v", err)
	}
	equal(t, one[int](s, `select count(*) from inboxd.audit`), 0)
	equal(t, one[int](s, `select position from inboxd.sources`), 5)

	called := 0
	must(t, s.MoveOffsets(t.Context(), by, "g", "orders", moves, func(context.Context) error { called++; return nil }))
	equal(t, called, 1)
	equal(t, one[string](s, `select action || ' ' || reason || ' ' || detail from inboxd.audit`),
		`reset again {"group": "g", "topic": "orders", "partitions": [{"to": 2, "from": 5, "partition": 0}]}`)
	equal(t, one[string](s, `select concat_ws(' ', position, committed, state, member) from inboxd.sources`), "2 2 left")

	ctx, cancel := context.WithCancel(t.Context())
	err = s.MoveOffsets(ctx, by, "g", "orders", moves, func(context.Context) error { cancel(); return nil })
	if !errors.Is(err, admin.ErrNotRecorded) {
		t.Errorf("moved, and not on record: %v", err)
	}
}

func TestDedupWindow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	w, err := s.DedupWindow(t.Context())
	must(t, err)
	if !w.Whole {
		t.Error("nothing was forgotten yet")
	}
	s.exec(`select inboxd.open_segment()`)
	s.exec(`select inboxd.open_segment()`)
	s.exec(`drop table inboxd.inbox_1, inboxd.runs_1`)
	s.exec(`delete from inboxd.segments where segment = 1`)
	later, err := s.DedupWindow(t.Context())
	must(t, err)
	if later.Whole || !later.Since.After(w.Since) {
		t.Errorf("first %+v, then %+v", w, later)
	}
	if opened := one[time.Time](s, `select opened_at from inboxd.segments where segment = 2`); !later.Since.Equal(opened) {
		t.Errorf("remembered is what was stored since %v, not since %v", opened, later.Since)
	}
}
