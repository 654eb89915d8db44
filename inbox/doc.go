// Package inbox stores events: once each, in the order of their arrival within
// their aggregate. It also has what a team needs that stores nothing, and only
// wants each message to take effect once.
//
// # Storing
//
// A Store is made on a pool and a schema that was migrated (inboxd migrate up, or
// package migrations):
//
//	store := inbox.NewStore(pool, "")
//	outcomes, err := store.Put(ctx, []inbox.Event{{
//		ID: "e-1", AggregateID: "order-17", Type: "OrderPaid", Payload: payload,
//	}})
//
// Put is a transaction of its own and returns after its commit. For each event the
// answer is Stored, Duplicate or Conflict: nothing is stored twice, and a second
// event with the same ID changes nothing. An error is ErrInvalid if an event can
// never be stored as it is; any other is worth trying again, with the same events.
//
// Add stores in a transaction of the caller's, so that an event is there if and
// only if what it tells of is; a handler may add events for other aggregates:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, `update orders set paid = true where id = $1`, id); err != nil {
//			return err
//		}
//		_, err := store.Add(ctx, tx, event)
//		return err
//	})
//
// AddSQL is the same for a transaction of database/sql, with which GORM, sqlx and
// ent work, too.
//
// # What happens on commit
//
// Put locks the rows of its aggregates for a moment, gives its events the next
// positions, and has the database notify whoever runs the lanes. That lock is one
// that handlers never take, so storing waits for no handler, and positions are
// dense and appear in their order.
//
// Add lays events aside, under the number of the caller's transaction, and locks
// nothing, however long the transaction takes. Just before the commit a trigger
// does for all of them together what Put does: only then they get positions, and
// what somebody else has stored meanwhile is dropped as a duplicate. With the
// commit they are visible, and their lanes are woken. After a rollback there is
// nothing.
//
// # Records
//
// An Ingester stands before a Store for sources that deliver records: a Decoder
// makes an event of a record, and what cannot become one goes to quarantine, bytes
// intact, in the same transaction. Sources and formats are packages of their own
// below this one.
//
// # Reading
//
// Find looks an event up by its id and Lane lists those of an aggregate in order,
// both with what became of them; CountLanes says how many lanes are stuck, ready
// or idle. For pages, filters and changes there is package admin.
//
// # Once, without lanes
//
// A team with a consumer of its own needs no lanes to have each message take
// effect once: it claims the message's event in the transaction of the effect, and
// does nothing when the claim is not the first.
//
//	first, err := store.Claim(ctx, tx, "billing", message.ID)
//
// Once wraps a function so, OnceSQL does it for database/sql, and package
// inbox/kafka has a handler for sarama's consumer groups. ForgetClaims is to be
// called now and then, and deletes old claims; package inbox starts no goroutine
// that would. To have one event take effect again, delete its row:
//
//	delete from inboxd.claims where consumer = 'billing' and event_id = 'e-1'
package inbox
