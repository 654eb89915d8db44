// Package handlers is where user code meets inboxd: a registry of one handler
// for each event type.
//
// # First use
//
//	type OrderPaid struct{ Cents int64 }
//
//	reg := handlers.New()
//	handlers.On(reg, "OrderPaid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[OrderPaid]) error {
//		_, err := tx.Exec(ctx, debit, e.Data.Cents, e.AggregateID)
//		return err // nil: done, and committed with the lane's progress
//	})
//	reg.Ignore("OrderViewed")
//	p, err := ordering.New(pool, reg, ordering.Config{}) // or: cmd.Main(reg), with every command
//	…
//	err = p.Run(ctx) // until ctx ends, at SIGTERM say, and what runs is done
//
// The payload is decoded from JSON into the type that the handler names; []byte,
// json.RawMessage and string take it as it came. WithCodec sets another codec for
// a type, or, given to New, for all. A mistake in registering panics: a type twice,
// a nil handler, data that nothing can be decoded into, an option that does not
// fit. It is found when the program starts, and so is data that the codec cannot
// make, if the codec is a DataChecker.
//
// # Which form
//
// On is for code that reads and decides: it gets the transaction and may use it
// as it likes, a round trip a statement. OnQueue, and SQL for statements from
// configuration, only queue statements; inboxd sends those of many events in one
// piece. OnBatch gets several events of one aggregate and may answer them with
// one statement. Where the choice is open, OnQueue is several times faster than
// On, and OnBatch faster again. Single gives a batched handler another form for
// the event that is alone.
//
// # Outcomes
//
// Nil: the event is done, and commits. An error: what the handler wrote is
// undone, the lane backs off and tries again, up to the configured attempts,
// then it is stuck. Permanent makes it stuck at once, RetryAfter sets the time of
// the next attempt, Skip passes over the event. Pause says that a dependency is
// down, and Later that this event should wait; neither uses up an attempt. A panic
// is an error. The lane's followers wait in any case; other lanes do not.
// OutcomeOf says of an error what it means.
//
// # The event
//
// Event embeds the Message: ids, position, times, headers, source, which attempt
// it is, and whether it is a replay. IdempotencyKey is for calls to the outside,
// TraceParent for tracing, and Logger(ctx) logs with all of it.
//
// # Options
//
// WithRetry, WithTimeout and WithIsolation set for a type what the processor has
// for all. Given to New they hold for every type that says nothing else.
// WithOwnTransaction keeps events apart whose handler calls other systems, and
// WithRequest has a dry run show such a call in place of making it. WithDoc says
// what a handler does, and List shows all that is registered.
//
// Package handlers/webhook sends events to HTTP endpoints.
//
// # Old events
//
// Alias has events of an older name run the handler of the new one, after steps
// made with Upcast that bring their data up to date. WithVersions does so for
// versions of one name, told apart by a header or a field.
//
// # Middleware
//
// A middleware is a function around the next handler:
//
//	func slow(next handlers.Handler) handlers.Handler {
//		return func(ctx context.Context, call *handlers.Call) error {
//			began := time.Now()
//			err := next(ctx, call)
//			if took := time.Since(began); took > time.Second {
//				handlers.Logger(ctx).Warn("slow handler", "took", took)
//			}
//			return err
//		}
//	}
//
// Use wraps all handlers in it, the first outermost, and WithMiddleware one,
// further in. DataOf gives it the data that the handler will get, and with
// WithLogFields it adds to what Logger says further in. It may answer
// in place of the handler, change the context, and put changed copies of messages
// into Call.Events; it must not change a Message, which the next attempt reads
// again. A function that is to hold state for each handler makes it where it gets
// next; state made outside of that is shared.
//
// Ready ones are Recover, Timeout, Logging, Metrics, Tracing, RateLimit,
// Concurrency and Validate. Of a queued handler they see the queueing alone: its
// statements run when it has returned, so that Metrics and Logging measure
// microseconds and call Done what may still fail, Timeout bounds nothing that
// takes long, and Recover sees no failed statement.
//
// # Rules for handlers
//
// A handler may run more than once for one event, but what it writes through its
// transaction takes effect once. What it does elsewhere, such as calling an API,
// it may do again: send an idempotency key along. It must not commit or roll back,
// nor keep the transaction after it returned; both are noticed and fail the
// attempt. It should return when its context ends. docs/handlers.md has more.
package handlers
