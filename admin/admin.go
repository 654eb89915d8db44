package admin

import (
	"context"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// DB is what an Admin needs of a pool or a connection; *pgxpool.Pool and
// *pgx.Conn have it.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Admin looks at lanes and changes them. It is safe for concurrent use if its DB
// is.
type Admin struct {
	db     DB
	name   string // of the schema
	schema string // the same, quoted
}

// New makes an Admin on db, for the given schema ("": inbox.DefaultSchema). It
// connects to nothing. Without a db, each call answers ErrNoDB.
func New(db DB, schema string) *Admin {
	if v := reflect.ValueOf(db); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		db = noDB{}
	}
	if schema == "" {
		schema = inbox.DefaultSchema
	}
	return &Admin{db: db, name: schema, schema: pgx.Identifier{schema}.Sanitize()}
}

// By says on whose behalf something is changed.
type By struct {
	// Actor is the person or program. The audit has the database's user before
	// it: "shop/ada". Empty: the database's user alone.
	Actor string
	// Reason is why; some changes need one.
	Reason string
}

// in puts the schema into a statement.
func (a *Admin) in(sql string) string {
	return strings.ReplaceAll(sql, "{schema}", a.schema)
}

// byIndexSQL has statements go by index and nested loops until the transaction
// ends, whatever the planner believes of tables that have just grown. A batch is
// a transaction.
const byIndexSQL = `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)`

// Compiling a plan takes longer than running the small ones there are.
const readSettingsSQL = `select set_config('jit', 'off', true)`

// read runs f in one snapshot.
func (a *Admin) read(ctx context.Context, f func(pgx.Tx) error) error {
	tx, err := a.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it changed nothing
	if _, err := tx.Exec(ctx, readSettingsSQL); err != nil {
		return err
	}
	return f(tx)
}

// storable reports whether PostgreSQL can hold the text; nothing is stored
// under a name that it cannot.
func storable(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

// cleaned makes a text storable.
func cleaned(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
