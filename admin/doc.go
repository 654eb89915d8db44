// Package admin is what operators do to lanes: find what is stuck, know why, and
// put it right in order. The command line only parses flags for it; pages and a
// team's own tools can use it as well.
//
//	ops := admin.New(pool, "inboxd")
//	for lane, err := range ops.Lanes(ctx, admin.Filter{State: admin.Stuck}) { … }
//	detail, err := ops.Lane(ctx, "order-17")
//	done, err := ops.Apply(ctx, admin.Retry, admin.By{Actor: "ada"}, admin.Target{AggregateID: "order-17"})
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
// Every change compares: it locks the lane's row and does nothing if another
// operator has changed the lane, or its head has moved, since it was seen. Of two
// operators who change a lane at once one wins, and the other gets a RefusedError
// that names the first. What is changed and the audit row that says who, when,
// what and why commit together.
//
// A lane whose handler runs is locked for as long. A change waits for it for a
// second; then it is recorded, and whoever runs the lane makes it before the next
// event, or puts on record why it does not fit any more. Whoever changes a lane
// makes first what was recorded for it.
//
// Changes of many lanes (ApplyAll) go in transactions of up to a hundred. They end
// between two of these when they are stopped, and the same call again goes on.
//
// # Verify
//
// Verify audits the order from what the database recorded, in one snapshot: the
// inbox, the ledger of runs that is written in the transactions of the effects,
// and the lanes. See Verify.
package admin
