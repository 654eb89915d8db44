package inboxtest_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inboxtest"
)

type handle = func(context.Context, pgx.Tx, handlers.Event[moved]) error

const (
	insertEntry   = `insert into entries (account, event, cents) values ($1, $2, $3)`
	upsertAccount = `insert into accounts values ($1, $2) on conflict (id) do update set cents = accounts.cents + excluded.cents`
)

// Good handlers of every form pass every check.
func TestGoodHandlersPass(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(*handlers.Registry) error{
		"On": func(reg *handlers.Registry) error { handlers.On(reg, "Moved", deposit); return nil },
		"OnQueue": func(reg *handlers.Registry) error {
			handlers.OnQueue(reg, "Moved", func(_ context.Context, b *pgx.Batch, e handlers.Event[moved]) error {
				b.Queue(insertEntry, e.AggregateID, e.ID, e.Data.Cents)
				b.Queue(upsertAccount, e.AggregateID, e.Data.Cents)
				return nil
			})
			return nil
		},
		"OnBatch": func(reg *handlers.Registry) error {
			handlers.OnBatch(reg, "Moved", func(ctx context.Context, tx pgx.Tx, list []handlers.Event[moved]) error {
				b := &pgx.Batch{}
				for _, e := range list {
					b.Queue(insertEntry, e.AggregateID, e.ID, e.Data.Cents)
					b.Queue(upsertAccount, e.AggregateID, e.Data.Cents)
				}
				return tx.SendBatch(ctx, b).Close()
			})
			return nil
		},
		"SQL": func(reg *handlers.Registry) error {
			return handlers.SQL(reg, "Moved", `insert into entries (account, event, cents)
				values (@aggregate_id, @event_id, (@payload::jsonb->>'cents')::bigint)`)
		},
		"savepoint": func(reg *handlers.Registry) error {
			handlers.On(reg, "Moved", func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
				return pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error { return deposit(ctx, inner, e) })
			})
			return nil
		},
		"copy": func(reg *handlers.Registry) error {
			handlers.On(reg, "Moved", func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
				_, err := tx.CopyFrom(ctx, pgx.Identifier{"entries"}, []string{"account", "event", "cents"},
					pgx.CopyFromRows([][]any{{e.AggregateID, e.ID, e.Data.Cents}}))
				return err
			})
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inboxtest.Check(t, inboxtest.Case{
				Options: inboxtest.Options{Setup: accounts},
				Handlers: func(*inboxtest.Kit) *handlers.Registry {
					reg := handlers.New()
					if err := register(reg); err != nil {
						t.Error(err)
					}
					return reg
				},
				Events: events(),
			})
		})
	}
}

// A handler that adds an event for another aggregate is right, too.
func TestHandlerThatAddsEventsPasses(t *testing.T) {
	t.Parallel()
	inboxtest.Check(t, inboxtest.Case{
		Options: inboxtest.Options{Setup: accounts, Schema: "in and out"},
		Handlers: func(k *inboxtest.Kit) *handlers.Registry {
			reg := handlers.New()
			handlers.On(reg, "Moved", deposit)
			handlers.On(reg, "Sent", func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
				_, err := k.Store().Add(ctx, tx, inbox.Event{ID: e.ID + "/in", AggregateID: "bank", Type: "Moved", Payload: e.Payload})
				return err
			})
			return reg
		},
		Events: append(events(), inboxtest.Event("alice", "Sent", moved{5}), inboxtest.Event("bob", "Sent", moved{6})),
	})
}

// Each deliberate bug is found by the checks that say so, and by no other.
func TestBugsAreFound(t *testing.T) {
	t.Parallel()
	for _, bug := range bugs() {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			_, said := try(t, func(r inboxtest.T) { inboxtest.Check(r, bug.c) })
			for i, runs := range runNames {
				found := strings.Contains(said, "a clean run:") || strings.Contains(said, "two runs in which all goes well")
				for _, name := range runs {
					found = found || strings.Contains(said, name)
				}
				want := bug.found[i]
				if want != "?" && (found != (want != "") || !strings.Contains(said, want)) {
					t.Errorf("check %d: found %v, want %q in:\n%s", i, found, want, said)
				}
			}
		})
	}
}

// runNames are those of the runs of CheckIdempotent, CheckRollback and CheckOrder.
var runNames = [3][]string{
	{"every event is delivered three times:", "the process dies before each commit:", "the process dies after each commit:", "all lanes run again:"},
	{"each statement fails once:"},
	{"another interleaving"},
}

type bug struct {
	name  string
	c     inboxtest.Case
	found [3]string // what CheckIdempotent, CheckRollback and CheckOrder say; "": they pass, "?": it depends
}

func bugs() []bug {
	plain := func(h handle) inboxtest.Case { return direct(func(*inboxtest.Kit) handle { return h }) }
	const differs = "the end differs from that of a run in which all goes well"
	return []bug{
		{"writes past its transaction", direct(func(k *inboxtest.Kit) handle {
			return func(ctx context.Context, _ pgx.Tx, e handlers.Event[moved]) error {
				_, err := k.Pool().Exec(ctx, insertEntry, e.AggregateID, e.ID, e.Data.Cents)
				return err
			}
		}), [3]string{"the process dies before each commit: " + differs, "a failed attempt of e1 (Moved of alice) has left something", ""}},
		{"writes past its transaction, once", direct(func(k *inboxtest.Kit) handle {
			return func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
				if _, err := k.Pool().Exec(ctx, `insert into seen values ($1) on conflict do nothing`, e.AggregateID); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, upsertAccount, e.AggregateID, e.Data.Cents)
				return err
			}
		}), [3]string{"", "+ seen: id=alice", ""}},
		{"swallows in a savepoint", plain(func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			_ = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, insertEntry, e.AggregateID, e.ID, e.Data.Cents)
				return err
			})
			_, err := tx.Exec(ctx, upsertAccount, e.AggregateID, e.Data.Cents)
			return err
		}), [3]string{"", "returned nil although a statement of it had failed; it has to return the error: insert into entries", "?"}},
		{"swallows in the open", plain(func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			_, _ = tx.Exec(ctx, insertEntry, e.AggregateID, e.ID, e.Data.Cents)
			return nil
		}), [3]string{"", "returned nil although a statement of it had failed; it has to return the error: insert into entries", "?"}},
		{"makes errors permanent", plain(func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			if err := deposit(ctx, tx, e); err != nil {
				return handlers.Permanent(err)
			}
			return nil
		}), [3]string{"", "made the error of a statement permanent", "?"}},
		{"skips on errors", plain(func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			if err := deposit(ctx, tx, e); err != nil {
				return handlers.Skip(err)
			}
			return nil
		}), [3]string{"", "skipped the event because a statement had failed", "?"}},
		{"remembers what it has seen", direct(func(*inboxtest.Kit) handle {
			seen := map[string]bool{}
			return func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
				if seen[e.ID] {
					return nil
				}
				seen[e.ID] = true
				return deposit(ctx, tx, e)
			}
		}), [3]string{"", "each statement fails once: " + differs, "?"}},
		{"keeps balances in memory", direct(func(*inboxtest.Kit) handle {
			balance := map[string]int64{}
			return func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
				balance[e.AggregateID] += e.Data.Cents
				_, err := tx.Exec(ctx, `insert into accounts values ($1, $2) on conflict (id) do update set cents = excluded.cents`,
					e.AggregateID, balance[e.AggregateID])
				return err
			}
		}), [3]string{"the process dies before each commit: ", "each statement fails once: " + differs, "?"}},
		{"counts the events of all", plain(func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			_, err := tx.Exec(ctx, `insert into entries (account, event, cents) select $1, $2, count(*) from entries`, e.AggregateID, e.ID)
			return err
		}), [3]string{"", "", "another interleaving (seed 1, round 1): " + differs}},
		{"depends on what ran before", dependsOnGlobal(), [3]string{"two runs in which all goes well end differently",
			"two runs in which all goes well end differently", "two runs in which all goes well end differently"}},
		{"commits", plain(func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			if err := deposit(ctx, tx, e); err != nil {
				return err
			}
			return tx.Commit(ctx)
		}), [3]string{"can neither commit nor roll back", "can neither commit nor roll back", "can neither commit nor roll back"}},
		{"commits by a statement", plain(func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			if err := deposit(ctx, tx, e); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "commit")
			return err
		}), [3]string{"ended the lane's transaction", "ended the lane's transaction", "ended the lane's transaction"}},
		{"needs a replay flag", replayed(plain(deposit)), [3]string{"all lanes run again: " + differs, "", ""}},
	}
}

func replayed(c inboxtest.Case) inboxtest.Case {
	c.Replay = true
	return c
}

func dependsOnGlobal() inboxtest.Case {
	var calls atomic.Int64
	return direct(func(*inboxtest.Kit) handle {
		return func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			_, err := tx.Exec(ctx, insertEntry, e.AggregateID, e.ID, calls.Add(1))
			return err
		}
	})
}

// An effect that is set, not added, may be asked for again.
func TestReplayOfWhatIsSet(t *testing.T) {
	t.Parallel()
	inboxtest.CheckIdempotent(t, replayed(direct(func(*inboxtest.Kit) handle {
		return func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			_, err := tx.Exec(ctx, `insert into accounts values ($1, $2) on conflict (id) do update set cents = excluded.cents`,
				e.AggregateID, e.Position)
			return err
		}
	})))
}

// A case may be about events that fail whatever happens.
func TestStuckIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	overdraw := direct(func(*inboxtest.Kit) handle { return deposit })
	overdraw.Events = append(events(), inboxtest.Event("alice", "Moved", moved{-9999}), inboxtest.Event("alice", "Moved", moved{1}))
	failed, said := try(t, func(r inboxtest.T) { inboxtest.CheckIdempotent(r, overdraw) })
	if !failed || !strings.Contains(said, "e6, e7 are not processed when all goes well; if that is meant, set Case.Stuck") {
		t.Errorf("failed %v: %s", failed, said)
	}
	overdraw.Stuck = true
	inboxtest.Check(t, overdraw)

	queued := overdraw
	queued.Handlers = func(*inboxtest.Kit) *handlers.Registry {
		reg := handlers.New()
		handlers.OnQueue(reg, "Moved", func(_ context.Context, b *pgx.Batch, e handlers.Event[moved]) error {
			b.Queue(insertEntry, e.AggregateID, e.ID, e.Data.Cents)
			return nil
		})
		return reg
	}
	inboxtest.Check(t, queued)
}

// What a handler does without on purpose, and what stands for the world outside,
// can be named.
func TestExceptions(t *testing.T) {
	t.Parallel()
	c := direct(func(k *inboxtest.Kit) handle {
		return func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			if _, err := k.Pool().Exec(ctx, `insert into calls values ($1) on conflict do nothing`, e.ID); err != nil {
				return err
			}
			_ = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
				_, err := inner.Exec(ctx, insertEntry, e.AggregateID, e.ID, e.Data.Cents)
				return err
			})
			_, err := tx.Exec(ctx, upsertAccount, e.AggregateID, e.Data.Cents)
			return err
		}
	})
	c.Options.Setup += `; create table calls (key text primary key)`
	c.Outside = []string{"calls"}
	c.NoFault = func(sql string) bool {
		return strings.Contains(sql, "savepoint") || strings.Contains(sql, "insert into entries")
	}
	inboxtest.Check(t, c)
}

func TestStateOfTheCasesOwn(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	c := direct(func(*inboxtest.Kit) handle {
		return func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			_, err := tx.Exec(ctx, insertEntry, e.AggregateID, fmt.Sprint(calls.Add(1)), e.Data.Cents)
			return err
		}
	})
	c.State = []string{`select account, sum(cents) from entries group by account`}
	inboxtest.Check(t, c)
}

func TestMistakesInACase(t *testing.T) {
	t.Parallel()
	once := handlers.New()
	handlers.On(once, "Moved", deposit)
	for name, c := range map[string]struct {
		change func(*inboxtest.Case)
		want   string
	}{
		"no handlers":  {func(c *inboxtest.Case) { c.Handlers = nil }, "Case.Handlers is nil"},
		"no events":    {func(c *inboxtest.Case) { c.Events = nil }, "Case.Events is empty"},
		"nil registry": {func(c *inboxtest.Case) { c.Handlers = func(*inboxtest.Kit) *handlers.Registry { return nil } }, "answered nil"},
		"one registry": {func(c *inboxtest.Case) { c.Handlers = func(*inboxtest.Kit) *handlers.Registry { return once } }, "a new registry at each call"},
		"one lane":     {func(c *inboxtest.Case) { c.Events = c.Events[:1] }, "two aggregates or more"},
		"bad setup":    {func(c *inboxtest.Case) { c.Options.Setup = "creat table x" }, "run Options.Setup"},
		"no tables":    {func(c *inboxtest.Case) { c.Options.Setup = "" }, "no business table"},
		"no outside":   {func(c *inboxtest.Case) { c.Outside = []string{"calls"} }, `names "calls", which is no business table; there are: accounts, entries`},
		"bad state":    {func(c *inboxtest.Case) { c.State = []string{"select nothing from nowhere"} }, "in: select nothing from nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wrong := good()
			c.change(&wrong)
			if failed, said := try(t, func(r inboxtest.T) { inboxtest.CheckOrder(r, wrong) }); !failed || !strings.Contains(said, c.want) {
				t.Errorf("failed %v, want %q in: %s", failed, c.want, said)
			}
		})
	}
}

// Each event ends a process twice, and the next one has handlers of its own.
func TestCrashesMakeNewProcesses(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	c := good()
	register := c.Handlers
	c.Handlers = func(k *inboxtest.Kit) *handlers.Registry {
		made.Add(1)
		return register(k)
	}
	inboxtest.CheckIdempotent(t, c)
	clean, duplicates, crashes := 2, 1, 2*(len(c.Events)+1)
	if got := int(made.Load()); got != clean+duplicates+crashes {
		t.Errorf("%d processes", got)
	}
}

// Faults come in other interleavings as well, where events share transactions.
func TestFaultsInOtherInterleavings(t *testing.T) {
	t.Parallel()
	c := direct(func(*inboxtest.Kit) handle {
		return func(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
			_, _ = tx.Exec(ctx, insertEntry, e.AggregateID, e.ID, e.Data.Cents)
			return nil
		}
	})
	c.Rounds = 6
	failed, said := try(t, func(r inboxtest.T) { inboxtest.CheckOrder(r, c) })
	if !failed || !strings.Contains(said, "statements fail at random:\nthe handler of ") {
		t.Errorf("failed %v: %s", failed, said)
	}
}

// How often an event type is tried in production has no say in a check.
func TestRetryPolicyOfATypeHasNoSay(t *testing.T) {
	t.Parallel()
	c := good()
	c.Handlers = func(*inboxtest.Kit) *handlers.Registry {
		reg := handlers.New(handlers.WithRetry(handlers.Retry{Never: true}))
		handlers.On(reg, "Moved", deposit)
		reg.Ignore("Seen")
		return reg
	}
	inboxtest.CheckRollback(t, c)
}
