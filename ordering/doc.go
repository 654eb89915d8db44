// Package ordering runs lanes: for each aggregate, its events one after the
// other, in the order of their positions, each in one transaction with what its
// handler writes; other aggregates at the same time; over any number of
// processes.
//
// # First use
//
// The schema is migrated before: by inboxd migrate up, or by the program itself.
// The pool is the caller's, with its own tracer, time-outs and number of
// connections, Workers + 4 of them for inboxd.
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	conn, err := pgx.Connect(ctx, url)
//	…
//	_, _, err = migrations.Up(ctx, conn, "inboxd") // changes nothing if it is up to date
//	…
//	pool, err := pgxpool.NewWithConfig(ctx, config)
//	…
//	defer pool.Close()
//	p, err := ordering.New(pool, reg, ordering.Config{Workers: 16, Log: slog.Default(), Hooks: []any{metrics}})
//	…
//	err = p.Run(ctx)
//
// Run returns when ctx has ended and what ran is done: nil, or what the drain
// deadline cut short, by name. Call Abort at a second signal. A set-up that is wrong,
// such as a schema that is not migrated, is an error at once; a database that is away
// is waited for, at any time. Two Processors on two schemas run side by side, on one
// pool if it is large enough.
//
// # What a turn is
//
// A worker takes a lane from the scheduler, reads its next events if it has not
// got them yet, and runs them in one transaction, a turn: claim locks the lane
// and compares it with what was read, the handlers run, advance moves the cursor
// and writes the ledger, commit. Under a backlog several lanes share a turn; a
// turn that fails falls apart into lanes, and a lane into events, until the
// guilty event is alone. Its failure is then written to its lane: a backoff, or
// stuck. Lanes that were slow or failed take their next turns alone.
//
// The lane's row lock is what makes one process at a time run it. It needs no
// lease and no clock: the lock ends with the session. A process that freezes is
// noticed by the others through its heartbeat, and they end its sessions.
//
// # Goroutines
//
// Run owns them all and returns after they ended: the workers; the listener,
// which only signals, once it has heard a notification of its own; the sweeper, which finds what notifications missed and
// what is due again after a backoff; the settler, which tells the database which
// lanes are done or held, so that the sweep passes them by; and the heartbeat.
//
// # Not obvious
//
// Events are read before their lane is locked. That is safe because stored
// events never change, positions are dense, and claim compares the cursor under
// the lock.
//
// No attempt is counted beforehand in the normal way of things, which would cost
// a commit an event. Instead a transaction that died leaves a trace, the number
// of the transaction that locked the lane's row and never wrote it; load sees
// it, and such a lane runs carefully: its head alone, the attempt committed
// before the handler starts.
package ordering
