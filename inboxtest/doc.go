// Package inboxtest is for testing handlers: a PostgreSQL with inboxd in it for
// each test, and checks that see whether a handler survives what will happen to
// it.
//
// # First use
//
//	func TestDeposits(t *testing.T) {
//		kit := inboxtest.New(t, inboxtest.Options{Setup: "create table accounts (…)"})
//		kit.Add(
//			inboxtest.Event("alice", "Deposited", Deposited{Cents: 700}),
//			inboxtest.Event("alice", "Withdrawn", Withdrawn{Cents: 900}),
//		)
//		kit.Run(shop.Handlers(kit.Pool()))
//		kit.AssertProcessed("alice", "e1")
//		kit.AssertStuck("alice", "e2", "overdrawn")
//	}
//
// New makes a database of the test's own, which is dropped in the end: some 20 ms
// on a quiet machine. The first one of a process starts an embedded PostgreSQL;
// INBOXD_TEST_DATABASE_URL names a server to use in its place. Tests may be
// parallel. Setup makes the business tables, where and as the service has them.
//
// Run runs the lanes with a real ordering.Processor until no lane can run any
// more. It jumps over backoffs. RunDue does not, and Advance lets time pass:
//
//	kit.RunDue(reg)                  // the bank answers: try again in an hour
//	kit.Wait("alice")                // about an hour
//	kit.Advance(time.Hour)
//	kit.RunDue(reg)
//
// Processed, Skipped, Waiting, Stuck and Lane answer what became of the events, Get
// reads a value of the business tables, and Admin does what an operator does. An
// assertion that does not hold prints the History, a line for each attempt.
//
// # Checking a handler
//
//	inboxtest.Check(t, inboxtest.Case{
//		Options:  inboxtest.Options{Setup: shop.Tables},
//		Handlers: func(kit *inboxtest.Kit) *handlers.Registry { return shop.Handlers(kit.Pool()) },
//		Events:   []inbox.Event{ … },
//	})
//
// Check runs the events once with all going well, and then over and over with
// things going wrong, each time in a fresh database, and compares how the business
// tables end. It is three checks, which can be called apart:
//
//   - CheckIdempotent: events are delivered several times; the process dies before
//     each commit, and after each;
//   - CheckRollback: each statement of each handler fails once, and so does the end
//     of each handler;
//   - CheckOrder: the events of several aggregates arrive in other orders, and are
//     run by several processes and many to a transaction, with faults.
//
// Give it events that reach the handlers' branches, of two aggregates or more. A
// dozen of them take a few seconds.
//
// # What the checks find
//
//   - a write past the transaction, by a pool or another connection: a failed
//     attempt leaves it behind, and a second one doubles it;
//   - state in memory, a cache or a counter, that a failed attempt or another
//     process puts wrong;
//   - an error of a statement that is swallowed, made permanent or skipped on;
//   - a commit or a rollback of the handler's own;
//   - a dependence on when other aggregates' events arrive;
//   - a dependence on clocks, chance and what ran before: two runs in which all goes
//     well end differently.
//
// They cannot see a call to the outside. A fake of what is called can keep its
// calls in a table of the test's database, by the idempotency key, as the real one
// does: name the table in Case.Outside. What the fake holds in the end is compared
// like everything else, so that a call without a key, or with another one at each
// attempt, is found.
//
// A replay is not what CheckIdempotent means unless Case.Replay is set: inboxd gives
// an event its effect once, and a handler may rely on that; who asks for a replay
// asks for the effect again. Handlers that set what they write rather than add to
// it, or that look at Event.Replay, are right under a replay as well.
//
// # Not obvious
//
// The clock is the database's, and nothing changes it. Jumping and Advance move
// what is due: the ends of backoffs, and the probes of event types that are paused.
// All that is waited for moves by the same time, so that it ends in its order. Lanes
// that fail under RunDue are held, so that the database's clock does not make them
// due. Limits of handlers, which go by the process's clock, are waited for.
//
// Faults are put at what a handler sends on the connection of its transaction, by
// a tracer of the pool, whichever way it goes there: pgx.Tx, its Conn, a batch, a
// copy, or database/sql on that connection. The statement fails in the server, as
// PostgreSQL has it: the transaction is aborted. Middleware that the registry has
// runs outside of the fault, and its own statements do not fail.
//
// A death of the process is its connection cut in the middle of a commit, its
// processor ended, and its registry forgotten; the next process has a new one from
// Case.Handlers. Memory that is shared by all, a package's variables, lives on.
//
// # Goroutines
//
// Those of the processor, while Run or a check runs; they have ended when it
// returns. Those of pgxpool, until the test ends.
package inboxtest
