package ordering

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/fault"
)

// dryRun is one on its way. Its transaction cannot be committed, not even by a
// handler that sends a commit: a deferred constraint is broken from the start,
// and any other transaction of the session is read-only.
type dryRun struct {
	p    *Processor
	conn *pgx.Conn
	rec  *recorder
	gone bool // a handler did not return, and still has the connection
}

const (
	dryRunReadOnly = `set session characteristics as transaction read only`
	dryRunTable    = `create temporary table inboxd_dry_run (never integer,
	constraint "inboxd dry run" unique (never) deferrable initially deferred)`
	dryRunPoison     = `insert into pg_temp.inboxd_dry_run values (1), (1)`
	dryRunConstraint = "inboxd dry run"
	// What commit would check is checked, but for the poison.
	dryRunCure  = `delete from pg_temp.inboxd_dry_run`
	dryRunCheck = `set constraints all immediate`

	dryRunLimits = `select set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true),
	set_config('idle_in_transaction_session_timeout', $3, true), set_config('inboxd.turn', 'open', true)`

	dryRunFind = `select lane_id from {schema}.aggregates where aggregate_id = $1`
	dryRunLock = `select state from {schema}.lanes where lane_id = $1 for update`
	dryRunTurn = `select {schema}.in_turn()`
)

// in puts the schema into a statement.
func (d *dryRun) in(sql string) string {
	return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{d.p.cfg.Schema}.Sanitize())
}

// connect opens the connection as the pool does, and has its statements noted.
func (d *dryRun) connect(ctx context.Context) (*pgx.Conn, error) {
	c := d.p.pool.Config()
	config := c.ConnConfig.Copy()
	if c.BeforeConnect != nil {
		if err := c.BeforeConnect(ctx, config); err != nil {
			return nil, err
		}
	}
	config.Tracer = d.rec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if c.AfterConnect != nil {
		if err := c.AfterConnect(ctx, conn); err != nil {
			_ = conn.Close(context.WithoutCancel(ctx))
			return nil, err
		}
	}
	if err := ownSession(ctx, conn); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// ownSession fails with ErrPooler if server and client do not have one number for
// the session.
func ownSession(ctx context.Context, conn *pgx.Conn) error {
	var own bool
	err := conn.QueryRow(ctx, `select pg_backend_pid()::bigint = $1`, int64(conn.PgConn().PID())).Scan(&own)
	if err == nil && !own {
		err = ErrPooler
	}
	return err
}

// close ends the session, and the transaction with it.
func (d *dryRun) close() {
	if d.gone {
		return // its network connection is closed; the rest is the handler's
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortGrace)
	defer cancel()
	// The lane is free when this has returned; whatever fails, the server rolls
	// back when the connection is gone.
	_, _ = d.conn.Exec(ctx, "rollback")
	_ = d.conn.Close(ctx)
}

// open begins the transaction, locks the lane, and reads its head.
func (d *dryRun) open(ctx context.Context, aggregate string) (*lane, error) {
	l, state := &lane{}, ""
	err := d.conn.QueryRow(ctx, d.in(dryRunFind), storable(aggregate, len(aggregate))).Scan(&l.id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNoAggregate
	} else if err != nil {
		return nil, err
	}
	// The head says how the transaction has to begin; it is read again below.
	if err := d.p.load(ctx, d.conn, []*lane{l}); err != nil {
		return nil, err
	}
	if len(l.events) == 0 {
		return l, nil
	}
	for _, sql := range []string{dryRunReadOnly, beginSQL[d.p.isolation(l)] + " read write"} {
		if _, err := d.conn.Exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	if err := d.limit(ctx, l, time.Second); err != nil {
		return nil, err
	}
	err = d.conn.QueryRow(ctx, d.in(dryRunLock), l.id).Scan(&state)
	if fault.State(err) == "55P03" {
		return nil, ErrBusy
	} else if err != nil {
		return nil, err
	}
	if err := d.limit(ctx, l, 0); err != nil {
		return nil, err
	}
	for _, sql := range []string{dryRunTable, dryRunPoison} {
		if _, err := d.conn.Exec(ctx, sql); err != nil {
			return nil, poisonFailure(err)
		}
	}
	return l, d.read(ctx, l, state)
}

func poisonFailure(err error) error {
	if fault.State(err) == "42501" {
		return fmt.Errorf("it needs the right to make temporary tables, so that it cannot commit (grant temporary on database … to …): %w", err)
	}
	return err
}

// limit sets the time-outs of a turn of one lane, and that for locks.
func (d *dryRun) limit(ctx context.Context, l *lane, lock time.Duration) error {
	limits := d.p.limits([]*lane{{}})
	ms := func(v time.Duration) string { return fmt.Sprint(v.Milliseconds()) }
	_, err := d.conn.Exec(ctx, dryRunLimits, ms(lock), ms(limits.statement), ms(limits.idle))
	return err
}

// read reads the lane and its head, under the lock. What a lane has used up that
// is not about to be tried does not count: it would be retried first.
func (d *dryRun) read(ctx context.Context, l *lane, state string) error {
	if err := d.p.load(ctx, d.conn, []*lane{l}); err != nil {
		return err
	}
	l.crashes = 0
	if state != "ready" && state != "backoff" {
		l.attempts = 0
	}
	if len(l.events) == 0 {
		return nil
	}
	_, err := d.p.fetch(ctx, d.conn, l, 1)
	return err
}

// runHead runs the handler as a turn does, and then what commit would check.
func (d *dryRun) runHead(ctx context.Context, l *lane) error {
	entry := d.p.entries[l.head().Type]
	var err error
	switch {
	case entry == nil:
		return fmt.Errorf("%w %q", ErrNoHandler, l.head().Type)
	case entry.Form == handlers.Ignored:
		return nil
	case entry.Form == handlers.Queued:
		err = d.queue(ctx, entry, l)
	default:
		err = d.call(ctx, entry, l)
	}
	if err != nil {
		return err
	}
	for _, sql := range []string{d.in(dryRunTurn), dryRunCure, dryRunCheck} {
		if _, err := d.conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// call runs a handler that uses the transaction.
func (d *dryRun) call(ctx context.Context, entry *handlers.Entry, l *lane) error {
	tx := &laneTx{conn: d.conn}
	d.rec.begin()
	err := d.guard(ctx, entry, func(ctx context.Context) error {
		return entry.Handle(ctx, &handlers.Call{Events: l.messages(0, 1), Tx: tx})
	})
	d.rec.end()
	if d.gone {
		return err
	}
	err = ended(err)
	if verdict := tx.verdict(); err == nil {
		err = verdict
	} else if errors.Is(verdict, errEnded) {
		err = errEndedDry
	}
	return err
}

// errEndedDry is how a handler failed that ended the transaction, or tried to.
var errEndedDry = errors.New("the handler ended the lane's transaction with a statement of its own (commit or rollback): in a turn, what it committed would stand without the lane's progress")

// ended puts errEndedDry in the place of the poison's error, and of that of
// another transaction, which is read-only.
func ended(err error) error {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && (refusal.ConstraintName == dryRunConstraint || refusal.Code == "25006") {
		return errEndedDry
	}
	return err
}

// guard runs a handler within its time-out, and leaves it behind if it does not
// return.
func (d *dryRun) guard(ctx context.Context, entry *handlers.Entry, f func(context.Context) error) error {
	limit := d.p.longest
	limited, cancel := context.WithTimeoutCause(ctx, limit, &handlers.TimeoutError{Limit: limit})
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { ended <- err }()
		err = protect(func() error { return f(limited) })
	}()
	var err error
	select {
	case err = <-ended:
	case <-limited.Done():
		grace := time.NewTimer(abortGrace)
		defer grace.Stop()
		select {
		case err = <-ended:
		case <-grace.C:
			d.gone = true
			_ = d.conn.PgConn().Conn().Close() // closed from outside: the handler may be using it
			err = fmt.Errorf("the handler did not return within %s of its time-out", abortGrace)
		}
	}
	if limited.Err() != nil && ctx.Err() == nil {
		err = errors.Join(context.Cause(limited), err)
	}
	return err
}

// judge says what would become of the head. An empty outcome: nothing can be
// said, because of the error.
func (d *dryRun) judge(l *lane, err error) (DryRunOutcome, time.Duration, error) {
	if err == nil {
		return DryRunProcessed, 0, nil
	}
	if !d.gone && len(l.events) > 0 {
		switch d.p.classify(d.conn, &turnError{owner: owner{l, 0}, err: err}) {
		case fault.Outage:
			return "", 0, err
		case fault.Conflict:
			return DryRunConflict, 0, err
		}
	}
	f := &failure{err: err}
	if len(l.events) > 0 {
		f.eventType = l.head().Type
	}
	v := d.p.judge(f, l.attempts)
	switch {
	case errors.Is(err, handlers.ErrPause):
		return DryRunPaused, 0, err
	case v.skip:
		return DryRunSkipped, 0, err
	case v.stuck:
		return DryRunStuck, 0, err
	case v.later:
		return DryRunLater, v.after, err
	}
	return DryRunFailed, v.after, err
}
