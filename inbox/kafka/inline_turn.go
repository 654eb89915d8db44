package kafka

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/IBM/sarama"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/fault"
)

// inlineDriver is what differs between pgx and database/sql.
type inlineDriver[T any] struct {
	begin            func(context.Context) (T, error)
	claim            func(ctx context.Context, s *inbox.Store, tx T, consumer, id string) (bool, error)
	commit, rollback func(context.Context, T) error
}

// inlineTurn handles a message in a transaction.
type inlineTurn[T any] struct {
	cfg    InlineConfig[T]
	driver inlineDriver[T]
	store  *inbox.Store
}

// failure is an error of the message rather than of what is around it: an attempt
// that counts.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func asFailure(err error) error {
	if err == nil {
		return nil
	}
	return failure{err}
}

// attempt claims the message's event and has the handler run. It is nil also for
// a duplicate.
func (t *inlineTurn[T]) attempt(ctx context.Context, m *sarama.ConsumerMessage) error {
	id, err := t.cfg.ID(m)
	if err != nil {
		return asFailure(fmt.Errorf("find the id of the message: %w", err))
	}
	return t.transaction(ctx, func(tx T) error {
		first, err := t.driver.claim(ctx, t.store, tx, t.cfg.Consumer, id)
		switch {
		case errors.Is(err, inbox.ErrInvalid):
			return asFailure(err)
		case err != nil || !first:
			return err
		}
		return asFailure(t.cfg.Handle(ctx, tx, m))
	})
}

// giveUp asks the poison function. The claim that goes with it keeps the message
// from running when it is delivered again; one without a usable id has none, and
// may come to the poison function again.
func (t *inlineTurn[T]) giveUp(ctx context.Context, m *sarama.ConsumerMessage, cause error) error {
	id, noID := t.cfg.ID(m)
	return t.transaction(ctx, func(tx T) error {
		if noID == nil {
			first, err := t.driver.claim(ctx, t.store, tx, t.cfg.Consumer, id)
			if err == nil && !first {
				return nil // somebody else handled it
			}
			if err != nil && !errors.Is(err, inbox.ErrInvalid) {
				return err
			}
		}
		return t.cfg.Poison(ctx, tx, m, cause)
	})
}

// inlineRollback is how long a rollback may take. What it leaves is rolled back
// with its connection.
const inlineRollback = 5 * time.Second

// transaction runs f in a transaction, and rolls it back if f fails or panics.
func (t *inlineTurn[T]) transaction(ctx context.Context, f func(T) error) error {
	tx, err := t.driver.begin(ctx)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	ended := false
	defer func() {
		if ended {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inlineRollback)
		defer cancel()
		_ = t.driver.rollback(ctx, tx) // if it fails the connection is lost, and the transaction with it
	}()
	if err := guarded(tx, f); err != nil {
		return err
	}
	if err := t.driver.commit(ctx, tx); err != nil {
		return asFailure(fmt.Errorf("commit: %w", err))
	}
	ended = true
	return nil
}

// guarded makes an error of a panic.
func guarded[T any](tx T, f func(T) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = asFailure(fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	return f(tx)
}

// counts reports whether an error is the message's fault, and an attempt that
// failed: what comes of the database being away, or of two transactions that met,
// is not.
func counts(err error) bool {
	if !errors.As(err, new(failure)) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return false
	}
	var stated interface{ SQLState() string } // of whatever driver
	if errors.As(err, &stated) {
		err = &pgconn.PgError{Code: stated.SQLState()}
	}
	return fault.Of(err) == fault.Event
}
