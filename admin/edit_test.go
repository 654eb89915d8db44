package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

var patching = admin.By{Actor: "ada", Reason: "amount was in cents"}

// edit edits an event that may be edited, and answers what became of it.
func (s *stage) edit(id, payload string) string {
	s.t.Helper()
	var b []byte // nil for an empty one
	if payload != "" {
		b = []byte(payload)
	}
	e, err := s.Edit(s.t.Context(), patching, id, b)
	must(s.t, err)
	return string(e.Outcome)
}

func (s *stage) event(id string) *admin.EventDetail {
	s.t.Helper()
	d, err := s.Event(s.t.Context(), id)
	must(s.t, err)
	return d
}

func TestEdit(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, "a")
	version := one[int](s, `select version from inboxd.lanes`)
	equal(t, s.edit("a/Paid-2", `{"n": 20}`), "edited")
	// Whoever has read the payload before may not run it.
	equal(t, one[int](s, `select version from inboxd.lanes`), version+1)

	d := s.event("a/Paid-2")
	equal(t, string(d.Payload), `{"n": 20}`)
	equal(t, string(d.Original), `{"n":2}`)
	user := one[string](s, `select session_user`)
	equal(t, d.Edit.Actor+" "+d.Edit.Reason, user+"/ada amount was in cents")
	equal(t, d.EditedAt.Equal(d.Edit.At), true)
	b, err := json.Marshal(d)
	must(t, err)
	for _, part := range []string{`"payload":{"n":20},"original_payload":{"n":2},"edit":{"at":"`, `"edited_at":"20`} {
		if !strings.Contains(string(b), part) {
			t.Errorf("%s is not in %s", part, b)
		}
	}
	for e, err := range s.Events(t.Context(), admin.EventFilter{AggregateID: "a"}) {
		must(t, err)
		equal(t, e.EditedAt != nil, e.EventID == "a/Paid-2")
	}

	equal(t, s.edit("a/Paid-2", `{"n": 20}`), "unchanged")
	equal(t, s.edit("a/Paid-2", "\x00"), "edited")
	equal(t, s.edit("a/Paid-2", ""), "edited") // empty is a payload, too
	equal(t, len(s.event("a/Paid-2").Payload), 0)
	equal(t, s.edit("a/Paid-2", `{"n":2}`), "reverted")
	equal(t, s.edit("a/Paid-2", `{"n":2}`), "unchanged")
	equal(t, s.event("a/Paid-2").Edit == nil, true)
	equal(t, s.edit("a/Paid-2", `1`), "edited")
	e, err := s.Revert(t.Context(), admin.By{}, "a/Paid-2")
	must(t, err)
	equal(t, e.Outcome, "reverted")
	equal(t, one[string](s, `select string_agg(coalesce(detail->>'bytes', '-'), ',' order by id) from inboxd.audit where action in ('edit', 'revert')`), "9,1,0,-,1,-")
	equal(t, one[string](s, `select detail->>'sha256' from inboxd.audit where detail->>'bytes' = '0'`), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
	const record = "U/ada edit a a/Paid-2 R, U/ada edit a a/Paid-2 R, U/ada edit a a/Paid-2 R, U/ada revert a a/Paid-2 R, " +
		"U/ada edit a a/Paid-2 R, U revert a a/Paid-2"
	equal(t, one[string](s, `select string_agg(concat_ws(' ', actor, action, aggregate_id, event_id, reason), ', ' order by id) from inboxd.audit`),
		strings.NewReplacer("U", user, "R", patching.Reason).Replace(record))
}

func TestEditOfWhatWasJSON(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, "a")
	for payload, warns := range map[string]bool{`{`: true, `2`: false} {
		e, err := s.Edit(t.Context(), patching, "a/Paid-1", []byte(payload))
		must(t, err)
		equal(t, e.NoLongerJSON, warns)
	}
}

func TestEditIsRefused(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, "a")
	s.put("Skipped", 1, "a")
	s.put("Broken", 2, "a")
	s.run(1)
	for _, tc := range []struct {
		id   string
		by   admin.By
		is   error
		want string
	}{
		{"a/Paid-1", patching, admin.ErrRefused, `event "a/Paid-1" cannot be edited: it was processed at 20`},
		{"a/Skipped-1", patching, admin.ErrRefused, `event "a/Skipped-1" cannot be edited: it was skipped at 20`},
		{"a/Paid-9", patching, admin.ErrNotFound, `there is no event "a/Paid-9" in the inbox`},
		{"a\x00", patching, admin.ErrNotFound, `there is no event`},
		{"a/Broken-1", admin.By{Actor: "ada"}, admin.ErrInvalid, `to edit an event takes a reason, which stays on record`},
	} {
		if _, err := s.Edit(t.Context(), tc.by, tc.id, nil); !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.id, err)
		}
	}
	_, err := s.Revert(t.Context(), patching, "a/Broken-1")
	if !errors.Is(err, admin.ErrRefused) || err.Error() != `event "a/Broken-1" is not edited; there is nothing to revert` {
		t.Error(err)
	}
	equal(t, one[int](s, `select count(*) from inboxd.edits`), 0)
}

// While a handler of the lane runs, an edit waits for a second and is refused.
func TestEditBesideAHandler(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 2, "a")
	tx, err := s.pool.Begin(t.Context())
	must(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), `select from inboxd.lanes for update`)
	must(t, err)
	for id, want := range map[string]string{
		"a/Paid-1": `event "a/Paid-1" could not be edited: for 1s it ran, or somebody else was changing its lane`,
		"a/Paid-2": `event "a/Paid-2" could not be edited: for 1s an event before it ran, or somebody else was changing its lane`,
	} {
		if _, err := s.Edit(t.Context(), patching, id, nil); !errors.Is(err, admin.ErrRefused) || err.Error() != want {
			t.Error(err)
		}
	}
}

// Whoever waited for the lane finds it as another one left it: of two edits one
// wins, and what ran meanwhile is not edited.
func TestEditCompares(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]string{
		`update inboxd.lanes set cursor = 1`: `event "a/Paid-1" cannot be edited any more: it was processed or skipped meanwhile`,
		`insert into inboxd.edits (lane_id, position, payload, actor, reason) values (1, 1, '', 'shop/bob', 'x')`: `event "a/Paid-1" was changed by somebody else meanwhile: edited by shop/bob`,
	} {
		t.Run(strings.Fields(what)[0], func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.put("Paid", 1, "a")
			tx, err := s.pool.Begin(t.Context())
			must(t, err)
			defer func() { _ = tx.Rollback(context.Background()) }()
			_, err = tx.Exec(t.Context(), `select from inboxd.lanes for update`)
			must(t, err)
			_, err = tx.Exec(t.Context(), what)
			must(t, err)
			ended := make(chan error, 1)
			go func() {
				_, err := s.Edit(context.Background(), patching, "a/Paid-1", []byte("2"))
				ended <- err
			}()
			s.await(`select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`)
			must(t, tx.Commit(t.Context()))
			if err := <-ended; !errors.Is(err, admin.ErrRefused) || err.Error() != want {
				t.Error(err)
			}
		})
	}
}

// await waits until a query answers true.
func (s *stage) await(query string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		var done bool
		must(s.t, s.pool.QueryRow(ctx, query).Scan(&done))
		if done {
			return
		}
	}
}

// A handler gets the edited payload, and what ran stays on record.
func TestEditedEventRuns(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 3, "a")
	equal(t, s.edit("a/Paid-2", `{"n":20}`), "edited")
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[struct{ N int }]) error {
		_, err := tx.Exec(ctx, `insert into effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Data.N)
		return err
	})
	p, err := ordering.New(s.pool, reg, quick())
	must(t, err)
	must(t, p.Run(t.Context()))
	equal(t, one[string](s, `select string_agg(position::text, ' ' order by n) from effects`), "1 20 3")
	d := s.event("a/Paid-2")
	equal(t, fmt.Sprint(d.ProcessedAt != nil, d.Edit != nil, string(d.Payload)), `true true{"n":20}`)
}
