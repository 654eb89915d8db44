package ordering

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

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

	request *handlers.Request // in place of a handler that ran
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
	limits := d.p.limits([]*lane{l})
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
