// Package handlers is where user code meets inboxd: a registry of one handler
// for each event type.
//
//	reg := handlers.New()
//	handlers.On(reg, "OrderPaid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[OrderPaid]) error {
//		_, err := tx.Exec(ctx, debit, e.Data.Amount, e.AggregateID)
//		return err
//	})
//	reg.Use(handlers.Recover(), handlers.Timeout(20*time.Second))
//	reg.Ignore("OrderViewed")
//
// # Which form
//
// On is for code that reads and decides: it gets the transaction and may use it
// as it likes, a round trip a statement. OnQueue, and SQL for statements from
// configuration, only queue statements; inboxd sends those of many events in one
// piece. OnBatch gets several events of one aggregate and may answer them with
// one statement. Where the choice is open, OnQueue is several times faster than
// On, and OnBatch faster again.
//
// # Outcomes
//
// Nil: the event is done, and commits. An error: what the handler wrote is
// undone, the lane backs off and tries again, up to the configured attempts,
// then it is stuck. Permanent makes it stuck at once, RetryAfter sets the time of
// the next attempt, Skip passes over the event, Pause waits without using up
// attempts. A panic is an error. The lane's followers wait in any case; other
// lanes do not.
//
// # Rules for handlers
//
// A handler may run more than once for one event, but what it writes through its
// transaction takes effect once. What it does elsewhere, such as calling an API,
// it may do again: send Event.ID along as an idempotency key. It must not commit
// or roll back, nor keep the transaction after it returned; both are noticed and
// fail the attempt.
package handlers
