package inboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inboxtest"
	"github.com/inboxd/inboxd/ordering"
)

// on makes a registry of one handler.
func on(h handle) *handlers.Registry {
	reg := handlers.New()
	handlers.On(reg, "Moved", h)
	return reg
}

func TestRun(t *testing.T) {
	t.Parallel()
	k := inboxtest.New(t, inboxtest.Options{Setup: accounts})
	k.Add(events()...)
	k.Run(on(deposit))
	k.AssertAllDone()
	k.AssertNoneStuck()
	k.AssertProcessed("alice", "e1", "e3")
	if got := k.Processed(); len(got) != 5 || len(k.Processed("alice", "carol")) != 3 || len(k.Skipped()) != 0 {
		t.Errorf("processed %v", got)
	}
	if got := inboxtest.Get[int64](k, `select cents from accounts where id = $1`, "alice"); got != 300 {
		t.Errorf("alice has %d", got)
	}
}

func TestAdd(t *testing.T) {
	t.Parallel()
	k := inboxtest.New(t, inboxtest.Options{Setup: accounts})
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	full := inboxtest.Event("a", "Moved", `{"cents":1}`, inboxtest.ID("mine"), inboxtest.Header("tenant", "x"),
		inboxtest.OccurredAt(at), inboxtest.Sequence(7))
	got := k.Add(full, inboxtest.Event("a", "Moved", moved{2}), full, inboxtest.Event("b", "Moved", nil, inboxtest.ID("mine")))
	if want := []inbox.Outcome{inbox.Stored, inbox.Stored, inbox.Duplicate, inbox.Conflict}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	var seen []handlers.Event[moved]
	k.Run(on(func(_ context.Context, _ pgx.Tx, e handlers.Event[moved]) error { seen = append(seen, e); return nil }))
	if len(seen) != 2 || seen[0].Data.Cents != 1 || string(seen[0].Headers[0].Value) != "x" || !seen[0].OccurredAt.Equal(at) ||
		*seen[0].Sequence != 7 || seen[1].ID != "e1" || seen[1].Data.Cents != 2 {
		t.Errorf("got %+v", seen)
	}
}

// Backoffs take no time, however long they are.
func TestRunJumpsOverBackoffs(t *testing.T) {
	t.Parallel()
	k := inboxtest.New(t, inboxtest.Options{})
	k.Add(inboxtest.Event("a", "Moved", moved{}), inboxtest.Event("b", "Moved", moved{}))
	k.Run(on(func(_ context.Context, _ pgx.Tx, e handlers.Event[moved]) error {
		if e.AggregateID == "a" && e.Attempt < 4 {
			return handlers.RetryAfter(errors.New("not yet"), time.Hour)
		}
		return nil
	}))
	k.AssertAllDone()
	if got := k.Processed(); !slices.Equal(got, []string{"e2", "e1"}) {
		t.Errorf("processed %v", got)
	}
	if got := k.Elapsed(); got < 3*time.Hour-time.Minute || got > 3*time.Hour+time.Minute {
		t.Errorf("%s have passed", got)
	}
}

func TestRunDueAndAdvance(t *testing.T) {
	t.Parallel()
	k := inboxtest.New(t, inboxtest.Options{})
	k.Add(inboxtest.Event("a", "Moved", moved{}), inboxtest.Event("b", "Moved", moved{}))
	reg := on(func(_ context.Context, _ pgx.Tx, e handlers.Event[moved]) error {
		if e.AggregateID == "a" && e.Attempt == 1 {
			return handlers.RetryAfter(errors.New("not yet"), time.Hour)
		}
		return nil
	})
	k.RunDue(reg)
	k.AssertProcessed("b", "e2")
	k.AssertProcessed("a")
	if wait := k.Wait("a"); wait < 59*time.Minute || wait > time.Hour || k.Wait("b") != 0 {
		t.Errorf("a waits %s", wait)
	}
	k.Advance(50 * time.Minute)
	k.RunDue(reg)
	k.AssertProcessed("a")
	k.Advance(10 * time.Minute)
	k.RunDue(reg)
	k.AssertProcessed("a", "e1")
	if k.Elapsed() != time.Hour {
		t.Errorf("%s have passed", k.Elapsed())
	}
}

// A dependency that stays down does not hold up Run for ever.
func TestRunEndsThoughAHandlerPauses(t *testing.T) {
	t.Parallel()
	k := inboxtest.New(t, inboxtest.Options{})
	k.Add(inboxtest.Event("a", "Moved", moved{}), inboxtest.Event("b", "Moved", moved{}))
	down := true
	reg := on(func(_ context.Context, _ pgx.Tx, e handlers.Event[moved]) error {
		if down && e.AggregateID == "a" {
			return handlers.Pause(errors.New("the bank is down"))
		}
		return nil
	})
	k.Run(reg)
	if got := k.Waiting(); !slices.Contains(got, "e1") {
		t.Errorf("waiting: %v", got)
	}
	down = false
	k.Run(reg)
	k.AssertAllDone()
}

func TestStuckAndWhy(t *testing.T) {
	t.Parallel()
	k := inboxtest.New(t, inboxtest.Options{Config: ordering.Config{Retry: ordering.Retry{Attempts: 2}}})
	k.Add(inboxtest.Event("a", "Moved", moved{1}), inboxtest.Event("a", "Moved", moved{2}), inboxtest.Event("a", "Moved", moved{3}),
		inboxtest.Event("b", "Moved", moved{4}))
	reg := on(func(_ context.Context, _ pgx.Tx, e handlers.Event[moved]) error {
		switch e.Data.Cents {
		case 2:
			return errors.New("a limit\nwas reached")
		case 4:
			return handlers.Skip(errors.New("too late"))
		}
		return nil
	})
	k.Run(reg)
	k.AssertStuck("a", "e2", "limit")
	if stuck := k.Stuck(); len(stuck) != 1 || stuck[0].AggregateID != "a" || stuck[0].Attempts != 2 || stuck[0].Pending != 2 {
		t.Errorf("stuck: %+v", stuck)
	}
	if got := k.Skipped(); !slices.Equal(got, []string{"e4"}) || k.Lane("b").State != admin.Idle {
		t.Errorf("skipped: %v", got)
	}
	for _, line := range []string{
		"a 1 e1 Moved 1 processed", "2 e2 Moved 1 failed a limit was reached", "2 e2 Moved 2 failed a limit was reached",
		"2 e2 Moved is stuck a limit was reached", "3 e3 Moved waits behind it", "b 1 e4 Moved 0 skipped too late",
	} {
		if !hasLine(k.History(), line) {
			t.Errorf("no line %q in the history:\n%s", line, k.History())
		}
	}
	if h := k.History("b"); strings.Contains(h, "e1") || !strings.Contains(h, "e4") {
		t.Errorf("the history of b:\n%s", h)
	}
}

// hasLine looks for a line of a table, times left out.
func hasLine(table, want string) bool {
	for line := range strings.Lines(table) {
		words := slices.DeleteFunc(strings.Fields(line), func(w string) bool { return strings.HasPrefix(w, "+") })
		if strings.Join(words, " ") == want {
			return true
		}
	}
	return false
}

// What does not hold fails the test, with the history.
func TestAssertionsFail(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		assert func(k *inboxtest.Kit)
		want   []string
	}{
		"processed":    {func(k *inboxtest.Kit) { k.AssertProcessed("a", "e1", "e2") }, []string{"of a e1 were processed, want e1, e2", "no money"}},
		"order":        {func(k *inboxtest.Kit) { k.AssertProcessed("a", "e2", "e1") }, []string{"want e2, e1"}},
		"all done":     {func(k *inboxtest.Kit) { k.AssertAllDone() }, []string{"e2 are not processed", "no money"}},
		"none stuck":   {func(k *inboxtest.Kit) { k.AssertNoneStuck() }, []string{"the lane of a is stuck", "no money"}},
		"not stuck":    {func(k *inboxtest.Kit) { k.AssertStuck("b", "e3", "") }, []string{"the lane of b is idle, want it stuck at e3"}},
		"other head":   {func(k *inboxtest.Kit) { k.AssertStuck("a", "e1", "") }, []string{"not stuck at e1"}},
		"other reason": {func(k *inboxtest.Kit) { k.AssertStuck("a", "e2", "no time") }, []string{`not because of "no time"`, "no money"}},
		"no lane":      {func(k *inboxtest.Kit) { k.Lane("nobody") }, []string{"nobody"}},
		"bad SQL":      {func(k *inboxtest.Kit) { k.Exec("selekt 1") }, []string{"in: selekt 1"}},
		"no row":       {func(k *inboxtest.Kit) { inboxtest.Get[int](k, "select 1 where false") }, []string{"no rows", "in: select 1 where false"}},
		"bad event":    {func(k *inboxtest.Kit) { k.Add(inboxtest.Event("", "Moved", nil)) }, []string{"aggregate_id is empty"}},
		"nil registry": {func(k *inboxtest.Kit) { k.Run(nil) }, []string{"the registry is nil"}},
		"back in time": {func(k *inboxtest.Kit) { k.Advance(-time.Hour) }, []string{"time does not run backwards"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed, said := try(t, func(r inboxtest.T) {
				k := inboxtest.New(r, inboxtest.Options{})
				k.Add(inboxtest.Event("a", "Moved", moved{1}), inboxtest.Event("a", "Moved", moved{2}), inboxtest.Event("b", "Moved", moved{1}))
				k.Run(on(func(_ context.Context, _ pgx.Tx, e handlers.Event[moved]) error {
					if e.Data.Cents == 2 {
						return handlers.Permanent(errors.New("no money"))
					}
					return nil
				}))
				c.assert(k)
			})
			if !failed {
				t.Fatal("it passed")
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("want %q in: %s", want, said)
				}
			}
		})
	}
}

// A handler that does not end fails the test in time, and says where it is.
func TestTimeout(t *testing.T) {
	t.Parallel()
	failed, said := try(t, func(r inboxtest.T) {
		k := inboxtest.New(r, inboxtest.Options{Timeout: 3 * time.Second, Config: ordering.Config{Drain: -1}})
		k.Add(inboxtest.Event("a", "Moved", moved{}))
		k.Run(on(func(ctx context.Context, _ pgx.Tx, _ handlers.Event[moved]) error { <-ctx.Done(); return ctx.Err() }))
	})
	if !failed || !strings.Contains(said, "lanes still run after 3s") || !hasLine(said, "a 1 e1 Moved can run") {
		t.Errorf("failed %v: %s", failed, said)
	}
}

func TestStateLeavesOutWhatDiffersByItself(t *testing.T) {
	t.Parallel()
	k := inboxtest.New(t, inboxtest.Options{Setup: `
		create schema shop;
		create table orders (n bigint generated always as identity primary key, name text, at timestamptz default now(), token uuid default gen_random_uuid());
		create table shop.lines (n serial, of_order bigint references orders (n), note text, told timestamptz, born timestamp)`})
	k.Exec(`insert into orders (name) values ('one'), (null);
		insert into shop.lines (of_order, note, told, born) values (1, 'two', clock_timestamp(), '2020-02-02 02:02:02')`)
	want := "orders: name=null\norders: name=one\nshop.lines: note=two told=during the run born=2020-02-02 02:02:02"
	if got := k.State(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	seen := ""
	k := inboxtest.New(t, inboxtest.Options{
		Setup: `create table x (id text)`,
		Prepare: func(ctx context.Context, pool *pgxpool.Pool) error {
			_, err := pool.Exec(ctx, `insert into x values ('prepared')`)
			return err
		},
		Pool: func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "shop" },
	})
	if err := k.Pool().QueryRow(t.Context(), `select id || current_setting('application_name') from x`).Scan(&seen); err != nil || seen != "preparedshop" {
		t.Errorf("got %q, %v", seen, err)
	}
	failed, said := try(t, func(r inboxtest.T) {
		inboxtest.New(r, inboxtest.Options{Prepare: func(context.Context, *pgxpool.Pool) error { return errors.New("no tool") }})
	})
	if !failed || !strings.Contains(said, "prepare the database of the test: no tool") {
		t.Errorf("failed %v: %s", failed, said)
	}
}

// Tests of one Setup get databases of their own.
func TestKitsShareNothing(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			k := inboxtest.New(t, inboxtest.Options{Setup: accounts})
			k.Add(events()...)
			k.Run(on(deposit))
			k.AssertAllDone()
			if got := inboxtest.Get[int](k, `select count(*) from entries`); got != 5 {
				t.Errorf("%d entries", got)
			}
		})
	}
}
