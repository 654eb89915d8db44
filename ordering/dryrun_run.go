package ordering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/fault"
)

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
	call := &handlers.Call{Events: l.messages(0, 1), Tx: tx}
	err := d.guard(ctx, entry, func(ctx context.Context) (err error) {
		if entry.SaysRequest() {
			d.request, err = entry.Rehearse(ctx, call)
			return err
		}
		return entry.Handle(ctx, call)
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
	limit := d.p.limitOf(entry)
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
