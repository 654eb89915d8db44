package inbox

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/inboxd/inboxd/internal/fault"
)

// DefaultSchema is the schema that everything lives in unless configured.
const DefaultSchema = "inboxd"

// DB is what a Store needs of a pool or a connection; *pgxpool.Pool and
// *pgx.Conn have it. Inside a transaction of the caller's, Add is what to use:
// Put runs its own transaction again when it met another one.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Outcome says what became of one event that was to be stored.
type Outcome byte

// The outcomes.
const (
	// Stored: the event is new and has its position.
	Stored Outcome = 's'
	// Duplicate: an event with the same ID is stored already; nothing changed.
	Duplicate Outcome = 'd'
	// Conflict: a duplicate whose aggregate, type or payload differs from what
	// is stored. Nothing changed, and somebody should look at the producer.
	Conflict Outcome = 'c'
)

// String gives the outcome's word.
func (o Outcome) String() string {
	switch o {
	case Stored:
		return "stored"
	case Duplicate:
		return "duplicate"
	case Conflict:
		return "conflict"
	}
	return fmt.Sprintf("Outcome(%q)", byte(o))
}

// Store puts events into the inbox and reads them. It is safe for concurrent use.
type Store struct {
	db        DB // nil: only what takes a transaction works
	schema    string
	err       error // what NewStore was told wrong; every call answers it
	sql       statements
	processID func() *int32
	onStored  func(lanes []int64)
}

// statements are those of a Store, for its schema.
type statements struct {
	store, quarantine, stage   string
	claim, forget              string
	laneID, lane, find, counts string
}

// StoreOption changes how a Store works.
type StoreOption func(*Store)

// OnStored has f called with the lanes that got events, after each commit of
// Put: whoever runs lanes in the same process hears of them at once.
func OnStored(f func(lanes []int64)) StoreOption {
	return func(s *Store) {
		if s.onStored = f; f == nil {
			s.refuse("OnStored was given no function")
		}
	}
}

// ForProcess names the process that stores, as registered by whoever runs lanes
// in it: if it freezes in the middle of storing, others can end its session.
func ForProcess(id func() int32) StoreOption {
	return func(s *Store) {
		if id == nil {
			s.refuse("ForProcess was given no function")
			return
		}
		s.processID = func() *int32 { v := id(); return &v }
	}
}

// NewStore makes a Store on db, in the given schema ("": DefaultSchema). With a
// nil db it can do what takes a transaction, Add and Claim and theirs for
// database/sql; the rest answers an error.
//
// It connects to nothing. A schema that cannot be one, or an option without its
// function, is the error of each call; Err answers it at once.
func NewStore(db DB, schema string, options ...StoreOption) *Store {
	if schema == "" {
		schema = DefaultSchema
	}
	s := &Store{
		schema:    schema,
		sql:       statementsFor(schema),
		processID: func() *int32 { return nil },
		onStored:  func([]int64) {},
	}
	if v := reflect.ValueOf(db); v.IsValid() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		s.db = db
	}
	if err := checkSchema(schema); err != nil {
		s.refuse(err.Error())
	}
	for _, o := range options {
		if o == nil {
			s.refuse("NewStore was given an option that is nil")
			continue
		}
		o(s)
	}
	return s
}

// Err says what NewStore was told that makes no Store, or nil: an ErrInvalid.
func (s *Store) Err() error { return s.err }

// refuse keeps the first thing that is wrong with the Store.
func (s *Store) refuse(sentence string) {
	if s.err == nil {
		s.err = &invalid{sentence}
	}
}

// usable says whether the Store can do what needs its database.
func (s *Store) usable() error {
	switch {
	case s.err != nil:
		return s.err
	case s.db == nil:
		return &invalid{"the store has no database: NewStore was given a nil pool, with which only Add, Claim and theirs for database/sql work"}
	}
	return nil
}

func statementsFor(schema string) statements {
	in := func(sql string) string {
		return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{schema}.Sanitize())
	}
	return statements{
		store: in(storeSQL), quarantine: in(quarantineSQL), stage: in(stageSQL),
		claim: in(claimSQL), forget: in(forgetSQL),
		laneID: in(laneIDSQL), lane: in(laneSQL), find: in(findSQL), counts: in(countsSQL),
	}
}

// storeSQL stores a batch in one round trip; see store() in the migrations for
// its locks.
const storeSQL = `
select outcomes, lanes from {schema}.store($1, $2, $3, $4, $5, $6, $7, $8::jsonb[], $9, $10, $11, $12, $13)`

// Put stores events in a transaction of its own and answers what became of
// each. It returns nil only after the commit. The events of one call keep their
// order within their aggregates. A conflict with another writer is run again;
// any other error stores nothing. One that is ErrInvalid names the event that
// can never be stored.
func (s *Store) Put(ctx context.Context, events []Event) ([]Outcome, error) {
	return s.put(ctx, events, nil)
}

func (s *Store) put(ctx context.Context, events []Event, refused []refusedRecord) ([]Outcome, error) {
	if err := s.usable(); err != nil {
		return nil, fmt.Errorf("store %d events: %w", len(events), err)
	}
	if len(events) == 0 && len(refused) == 0 {
		return nil, nil
	}
	c, err := columnsOf(events)
	if err != nil {
		return nil, err
	}
	var outcomes string
	var lanes []int64
	once := func() error {
		batch := &pgx.Batch{}
		for _, r := range refused {
			batch.Queue(s.sql.quarantine, r.args()...)
		}
		if len(events) > 0 {
			batch.Queue(s.sql.store, c.storeArgs(s.processID())...).QueryRow(func(row pgx.Row) error {
				return row.Scan(&outcomes, &lanes)
			})
		}
		return s.db.SendBatch(ctx, batch).Close()
	}
	if err := retryConflicts(ctx, once); err != nil {
		return nil, fmt.Errorf("store %d events: %w", len(events), s.unmigrated(err))
	}
	s.onStored(lanes)
	return []Outcome(outcomes), nil
}

// retryConflicts runs a transaction again that met another one: a deadlock, a
// serialization failure, or the same event id stored at the same moment.
func retryConflicts(ctx context.Context, once func() error) error {
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(2*time.Millisecond),
		backoff.WithMaxInterval(100*time.Millisecond),
		backoff.WithMaxElapsedTime(10*time.Second))
	return backoff.Retry(func() error {
		err := once()
		if err == nil || fault.Of(err) == fault.Conflict || fault.State(err) == uniqueViolation {
			return err
		}
		return backoff.Permanent(err)
	}, backoff.WithContext(policy, ctx))
}

const uniqueViolation = "23505"
