package ordering_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/postgres"
	"github.com/inboxd/inboxd/ordering"
)

// commitSettings notes, at each commit, whether it waits for the disk.
const commitSettings = `
create table commits (n bigint generated always as identity, xid xid8, waits text, last bigint);
create function note_commit() returns trigger language plpgsql as $$
begin
	insert into commits (xid, waits, last) values (pg_current_xact_id(), current_setting('synchronous_commit'), new.position);
	return null;
end $$;
create constraint trigger note after insert on effects deferrable initially deferred
for each row execute function note_commit()`

// commits lists the transactions with effects, in order: whether the commit
// waited for the disk, and the position of the last effect.
func (s *stage) commits() []string {
	s.t.Helper()
	return strings.Fields(one[string](s, `select coalesce(string_agg(waits || ':' || last, ' ' order by first), '')
		from (select waits, max(last) as last, min(n) as first from commits group by xid, waits) c`))
}

// chained is a processor's configuration with several short transactions for what
// is read at once.
func chained() ordering.Config {
	cfg := quick()
	cfg.Batch = 2
	return cfg
}

// The transactions of a chain are flushed together: the last one waits.
func TestChainIsFlushedAtItsEnd(t *testing.T) {
	t.Parallel()
	for _, each := range []bool{false, true} {
		t.Run(fmt.Sprint("each=", each), func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.exec(commitSettings)
			s.put("Paid", 1, 42)
			cfg := chained()
			cfg.FlushEach = each
			p := s.run(sqlRegistry(t, "Paid"), cfg)
			s.inOrder(42)
			s.sound()
			commits := s.commits()
			if len(commits) != 21 || p.Stats().Turns != 21 {
				t.Errorf("%d commits, %d turns counted, want 21: %v", len(commits), p.Stats().Turns, commits)
			}
			if last := commits[len(commits)-1]; last != "on:42" {
				t.Errorf("the last commit is %q, want one that waits", last)
			}
			waits := 0
			for i, c := range commits {
				if strings.HasPrefix(c, "on:") {
					waits++
				}
				if want := 2 * (i + 1); !strings.HasSuffix(c, fmt.Sprint(":", want)) {
					t.Errorf("commit %d is %q, want it to end with position %d", i, c, want)
				}
			}
			if each && waits != 21 || !each && waits > 3 {
				t.Errorf("%d of 21 commits waited for the disk: %v", waits, commits)
			}
		})
	}
}

// An event in the middle of a chain fails: what was committed before it stays, and
// is not run again; its own transaction leaves nothing, and costs its neighbours
// no attempt.
func TestChainThatFails(t *testing.T) {
	forms := map[string]string{
		"statement":  `select 1 / (@position - 24)`,
		"constraint": `insert into refused values (@position)`,
	}
	for name, statement := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.exec(`create table refused (position bigint primary key);
				create table others (position bigint);
				insert into others select generate_series(1, 100) except select 24;
				alter table others add unique (position);
				alter table refused add foreign key (position) references others (position) deferrable initially deferred`)
			s.put("Paid", 1, 40)
			reg := handlers.New()
			must(t, handlers.SQL(reg, "Paid", appendEffect, statement))
			p := s.run(reg, chained())
			s.inOrder(23)
			s.sound()
			if got := one[string](s, `select state || ' ' || attempts || ' ' || cursor from inboxd.lanes`); got != "stuck 4 23" {
				t.Errorf("the lane is %q, want it stuck at the 24th event after 4 attempts", got)
			}
			if n := one[int](s, `select count(*) from inboxd.events where position < 24 and attempts <> 1`); n != 0 {
				t.Errorf("%d events before it do not have one attempt", n)
			}
			if n := one[int](s, `select count(*) from inboxd.runs where first_position <= 20 and last_position - first_position <> 1`); n != 0 {
				t.Errorf("%d transactions before that of the failure ran again in another way", n)
			}
			if got := p.Stats().Processed; got != 23 {
				t.Errorf("%d events counted as processed, want 23", got)
			}
		})
	}
}

// What a handler in Go refuses before anything is sent ends the chain before it.
func TestChainEndsBeforeWhatIsRefused(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(commitSettings)
	s.put("Paid", 1, 12)
	s.exec(`update inboxd.inbox set payload = 'no json' where position = 9`)
	reg := handlers.New()
	handlers.OnQueue(reg, "Paid", func(_ context.Context, b *pgx.Batch, e handlers.Event[struct{ N int }]) error {
		b.Queue(`insert into effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Position)
		return nil
	})
	s.run(reg, chained())
	s.inOrder(8)
	s.sound()
	if got, want := s.commits(), []string{"off:2", "off:4", "off:6", "on:8"}; !slices.Equal(got, want) {
		t.Errorf("commits %v, want %v", got, want)
	}
	if st := s.pool.Stat(); int64(st.TotalConns()) < st.NewConnsCount() {
		t.Errorf("%d of %d connections were given up: a transaction was left open", st.NewConnsCount()-int64(st.TotalConns()), st.NewConnsCount())
	}
}

// A chain ends where another form of handler comes, and begins again behind it.
func TestChainStopsAtOtherForms(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(commitSettings)
	for i := range 30 {
		eventType := "Queued"
		if i == 13 || i == 14 {
			eventType = "Called"
		}
		s.event(fmt.Sprint("e-", i), "agg-0", eventType)
	}
	reg := sqlRegistry(t, "Queued")
	handlers.On(reg, "Called", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		return effect(ctx, tx, e.Message)
	})
	s.run(reg, chained())
	s.inOrder(30)
	s.sound()
	for _, c := range s.commits() {
		if c == "off:16" || c == "off:14" || c == "off:15" {
			t.Errorf("the transaction of a handler that was called did not wait for the disk: %v", s.commits())
		}
	}
}

// An operator's pause that comes in the middle of a chain is made before its next
// transaction.
func TestChangeComesWithinAChain(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 24)
	// The sixth event waits for a lock of the test's.
	s.exec(`create function through_door(at bigint) returns void language plpgsql as $$
	begin
		if at = 6 then
			perform pg_advisory_xact_lock(77);
		end if;
	end $$`)
	door := s.session(0)
	must(t, door.try(`select pg_advisory_lock(77)`))
	reg := handlers.New()
	must(t, handlers.SQL(reg, "Paid", appendEffect, `select through_door(@position)`))
	cfg := chained()
	cfg.UntilIdle = false
	s.start(reg, cfg)
	s.until(`select exists (select from pg_locks where locktype = 'advisory' and objid = 77 and not granted)`)
	if n := one[int](s, `select cursor from inboxd.lanes`); n != 4 {
		t.Errorf("the cursor is at %d while the third transaction runs, want 4", n)
	}
	s.request("pause", nil, nil)
	must(t, door.try(`select pg_advisory_unlock(77)`))
	s.until(`select state = 'paused' from inboxd.lanes`)
	if n := one[int](s, `select count(*) from effects`); n != 6 {
		t.Errorf("%d events ran, want the three transactions up to the pause", n)
	}
	s.sound()
	s.exec(`select inboxd.change(1, 'resume', null, null, 'ada', null)`)
	s.until(`select count(*) = 24 from effects`)
	s.inOrder(24)
	s.sound()
}

// A server that crashes may lose commits that did not wait for the disk: effects
// and cursor together, so that they are made again, once.
func TestServerCrashesWithinChains(t *testing.T) {
	t.Parallel()
	s, server := setupServer(t)
	s.put("Paid", 2, 10_000)
	cfg := chained()
	cfg.UntilIdle = false
	s.start(sqlRegistry(t, "Paid"), cfg)
	for _, n := range []int{500, 5000, 12_000} {
		s.eventually(`select count(*) >= $1 from effects`, n)
		must(t, server.Restart(t.Context(), postgres.Crash))
	}
	s.eventually(`select count(*) = 20000 from effects`)
	s.inOrder(20_000)
	s.sound()
	if n := one[int](s, `select count(*) from inboxd.failures`); n != 0 {
		t.Errorf("the crashes used up %d attempts", n)
	}
}

// Events that were read on while a chain ran are not run with a payload that was
// edited meanwhile.
func TestEditMeetsWhatWasReadOn(t *testing.T) {
	t.Parallel()
	for range 20 {
		if editWhatWasReadOn(t) {
			return
		}
	}
	t.Error("the edit came too late each time; nothing was tested")
}

// editWhatWasReadOn edits the 47th event while a chain, which reads on up to the
// 48th, is at its last transaction. False: the event ran before the edit
// got hold of the lane.
func editWhatWasReadOn(t *testing.T) bool {
	s := setup(t)
	s.exec(`create table said (position bigint, payload text)`)
	s.put("Paid", 1, 70)
	s.exec(`create function through_door(at bigint) returns void language plpgsql as $$
	begin
		if at = 32 then
			perform pg_advisory_xact_lock(77);
		end if;
	end $$`)
	door, editor := s.session(0), s.session(0)
	must(t, door.try(`select pg_advisory_lock(77)`))
	reg := handlers.New()
	must(t, handlers.SQL(reg, "Paid", appendEffect, `insert into said values (@position, @payload)`, `select through_door(@position)`))
	cfg := chained()
	cfg.UntilIdle = false
	s.start(reg, cfg)
	s.until(`select exists (select from pg_locks where locktype = 'advisory' and objid = 77 and not granted)`)
	var refused *string
	edited := editor.waiting(func() error {
		return editor.conn.QueryRow(context.Background(), `select inboxd.edit(1, 47, 'patched', 'ada', 'a typo')`).Scan(&refused)
	})
	must(t, door.try(`select pg_advisory_unlock(77)`))
	must(t, <-edited)
	s.until(`select count(*) = 70 from effects`)
	s.inOrder(70)
	s.sound()
	got := one[string](s, `select payload from said where position = 47`)
	if refused == nil && got != "patched" {
		t.Errorf("the 47th event ran with the payload %q, want the patched one", got)
	}
	return refused == nil
}
