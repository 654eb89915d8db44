package ordering

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/inboxd/inboxd/handlers"
)

// Errors of handlers that misuse their transaction.
var (
	// ErrNotYours is returned by Commit and Rollback of a handler's
	// transaction: inboxd commits it, together with the lane's progress.
	ErrNotYours = errors.New("a handler can neither commit nor roll back the lane's transaction; return nil or an error instead")
	// ErrReturned is returned by every use of a handler's transaction after the
	// handler returned.
	ErrReturned = errors.New("the handler has returned; its transaction is no longer its own")

	errSwallowed = errors.New("a statement failed and the handler returned nil; return its error, or use a savepoint (tx.Begin) around what may fail")
	errEnded     = errors.New("the handler ended the lane's transaction with a statement of its own (commit or rollback); what it committed stands without the lane's progress")
)

// laneTx is the transaction as a handler sees it.
type laneTx struct {
	conn   *pgx.Conn
	over   atomic.Bool
	depth  int
	parent *laneTx
	misuse error // the handler called Commit or Rollback
	used   bool  // the handler may have sent something
}

var _ pgx.Tx = (*laneTx)(nil)

func (t *laneTx) usable() error {
	t.used = true
	for p := t; p != nil; p = p.parent {
		if p.over.Load() {
			return ErrReturned
		}
	}
	return nil
}

// Begin sets a savepoint. Its Commit releases it, its Rollback undoes what came
// after it.
func (t *laneTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	nested := &laneTx{conn: t.conn, depth: t.depth + 1, parent: t}
	if _, err := t.conn.Exec(ctx, "savepoint "+nested.savepoint()); err != nil {
		return nil, err
	}
	return nested, nil
}

func (t *laneTx) savepoint() string { return fmt.Sprintf("inboxd_%d", t.depth) }

func (t *laneTx) end(ctx context.Context, sql string) error {
	if t.parent == nil {
		t.misuse = ErrNotYours
		return ErrNotYours
	}
	if t.over.Load() {
		return pgx.ErrTxClosed
	}
	if err := t.usable(); err != nil {
		return err
	}
	t.over.Store(true)
	_, err := t.conn.Exec(ctx, sql)
	return err
}

func (t *laneTx) Commit(ctx context.Context) error {
	return t.end(ctx, "release savepoint "+t.savepoint())
}

func (t *laneTx) Rollback(ctx context.Context) error {
	return t.end(ctx, "rollback to savepoint "+t.savepoint())
}

func (t *laneTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	if err := t.usable(); err != nil {
		return 0, err
	}
	return t.conn.CopyFrom(ctx, table, columns, src)
}

func (t *laneTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.usable(); err != nil {
		return failedBatch{err}
	}
	return t.conn.SendBatch(ctx, b)
}

// LargeObjects works on a transaction of pgx's own making, which this is not.
func (t *laneTx) LargeObjects() pgx.LargeObjects {
	panic("inboxd: large objects are reached by their SQL functions (lo_get, lo_put, …) in a handler's transaction")
}

func (t *laneTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	return t.conn.Prepare(ctx, name, sql)
}

func (t *laneTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.usable(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.conn.Exec(ctx, sql, args...)
}

func (t *laneTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.usable(); err != nil {
		return failedRows{err: err}, err
	}
	return t.conn.Query(ctx, sql, args...)
}

func (t *laneTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.usable(); err != nil {
		return failedRows{err: err}
	}
	return t.conn.QueryRow(ctx, sql, args...)
}

func (t *laneTx) Conn() *pgx.Conn {
	t.used = true
	return t.conn
}

// verdict is what a handler's use of the transaction says about the call, apart
// from what it returned.
func (t *laneTx) verdict() error {
	t.over.Store(true)
	switch t.conn.PgConn().TxStatus() {
	case 'T':
		return t.misuse
	case 'I':
		return handlers.Permanent(errEnded)
	}
	return errors.Join(t.misuse, errSwallowed)
}

type failedBatch struct{ err error }

func (f failedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }
func (f failedBatch) Query() (pgx.Rows, error)         { return failedRows(f), f.err }
func (f failedBatch) QueryRow() pgx.Row                { return failedRows(f) }
func (f failedBatch) Close() error                     { return f.err }
func (f failedBatch) Tx() pgx.Tx                       { return nil }

type failedRows struct{ err error }

func (failedRows) Close()                                       {}
func (f failedRows) Err() error                                 { return f.err }
func (failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (failedRows) Next() bool                                   { return false }
func (f failedRows) Scan(...any) error                          { return f.err }
func (f failedRows) Values() ([]any, error)                     { return nil, f.err }
func (failedRows) RawValues() [][]byte                          { return nil }
func (failedRows) Conn() *pgx.Conn                              { return nil }
func (failedRows) TypeMap() *pgtype.Map                         { return nil }
