// Package inbox stores events: once each, in the order of their arrival within
// their aggregate.
//
//	store := inbox.NewStore(pool, "inboxd")
//	outcomes, err := store.Put(ctx, events)          // in a transaction of its own
//	outcomes, err := store.Add(ctx, tx, events...)   // in the caller's transaction
//
// An Ingester stands before it for sources that deliver records: a Decoder makes
// an event of a record, and what cannot become one goes to quarantine, bytes
// intact, in the same transaction. Sources and formats are packages of their own
// below this one.
//
// Nothing is stored twice: a second event with the same ID is a duplicate and
// changes nothing, a Conflict if its content differs. Positions are dense and
// given under a lock that only those who store take, never a handler, so storing
// waits for no handler and no position appears late.
package inbox
