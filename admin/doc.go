// Package admin is what operators do to lanes: find what is stuck, know why, and
// put it right in order. The command line only parses flags for it; pages and a
// team's own tools can use it as well.
//
//	ops := admin.New(pool, "inboxd")
//	for lane, err := range ops.Lanes(ctx, admin.Filter{State: admin.Stuck}) { … }
//	detail, err := ops.Lane(ctx, "order-17")
//	done, err := ops.Retry(ctx, admin.By{Actor: "ada"}, admin.Target{AggregateID: "order-17"})
//	report, err := ops.Verify(ctx, admin.VerifyOptions{})
//
// It holds nothing in memory and runs no goroutine: an Admin is its statements
// and the pool that the caller gave.
//
// # Reading
//
// Lists are read in pages by key, each page a statement of its own, so that a
// slow reader holds no snapshot open and no connection. What changes between two
// pages may be seen twice or not at all. A page costs the same behind a hundred
// thousand stuck lanes as before them. Events of no aggregate in particular are
// the exception: no index has their order, and they come in one statement.
//
// # Changing
//
// Every change compares: it locks the lane's row and does nothing unless the
// lane is as it was seen. Of two operators who change a lane at once one wins,
// and the other gets a RefusedError. A lane whose handler runs is locked for as
// long; a change waits for one second and is refused then. What is changed and
// the audit row that says who, when, what and why commit together.
//
// # Payloads and quarantine
//
// An event's payload is never changed: an edit stands beside it, for as long as
// the event is unprocessed, and stays as the record of what ran. A record that
// could not become an event can be requeued once the cause is put right, which
// stores it behind what its aggregate has by then: where that costs it its place
// in order, Requeue says so and refuses unless told otherwise.
//
// # Verify
//
// Verify audits the order from what the database recorded, in one snapshot: the
// inbox, the ledger of runs that is written in the transactions of the effects,
// and the lanes. See Verify.
package admin
