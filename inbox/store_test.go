package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
)

// stageTx is a transaction of each kind.
type stageTx struct {
	pgx pgx.Tx
	sql *sql.Tx
}

// calls are all that a Store can be asked.
func calls(ctx context.Context, s *inbox.Store, tx *stageTx) map[string]func() error {
	e := event("e", "a")
	return map[string]func() error{
		"Put":          func() error { _, err := s.Put(ctx, []inbox.Event{e}); return err },
		"Add":          func() error { _, err := s.Add(ctx, tx.pgx, e); return err },
		"AddSQL":       func() error { _, err := s.AddSQL(ctx, tx.sql, e); return err },
		"Claim":        func() error { _, err := s.Claim(ctx, tx.pgx, "c", "e"); return err },
		"ClaimSQL":     func() error { _, err := s.ClaimSQL(ctx, tx.sql, "c", "e"); return err },
		"ForgetClaims": func() error { _, err := s.ForgetClaims(ctx, time.Hour); return err },
		"Find":         func() error { _, err := s.Find(ctx, "e"); return err },
		"CountLanes":   func() error { _, err := s.CountLanes(ctx); return err },
		"Lane": func() error {
			for _, err := range s.Lane(ctx, "a", 0) {
				return err
			}
			return nil
		},
	}
}

// A Store that was made wrongly says so at each call, in a sentence.
func TestStoreMadeWrongly(t *testing.T) {
	t.Parallel()
	s := setup(t)
	tx := &stageTx{s.begin(), s.beginSQL(s.openSQL("pgx"))}
	for want, store := range map[string]*inbox.Store{
		"59 bytes, but must have at most 58": inbox.NewStore(s.pool, strings.Repeat("s", 59)),
		"begin with pg_":                     inbox.NewStore(s.pool, "PG_inbox"),
		"schema holds a NUL":                 inbox.NewStore(s.pool, "a\x00b"),
		"schema is not valid UTF-8":          inbox.NewStore(s.pool, "a\xff"),
		"OnStored was given no function":     inbox.NewStore(s.pool, "", inbox.OnStored(nil)),
		"ForProcess was given no function":   inbox.NewStore(s.pool, "", inbox.ForProcess(nil)),
		"an option that is nil":              inbox.NewStore(s.pool, "", nil),
		"the schema cannot be":               inbox.NewStore(s.pool, "pg_x", nil), // the first mistake
	} {
		if err := store.Err(); !errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Err: want %q, got %v", want, err)
		}
		for name, call := range calls(t.Context(), store, tx) {
			if err := call(); !errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: want %q, got %v", name, want, err)
			}
		}
	}
	s.whole(0)
}

// A schema without inboxd in it is named, with what to do.
func TestStoreInAnUnmigratedSchema(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`create schema empty`)
	for _, schema := range []string{"nowhere", "empty"} {
		store := inbox.NewStore(s.pool, schema)
		for name := range calls(t.Context(), store, nil) {
			tx := &stageTx{s.begin(), s.beginSQL(s.openSQL("pq"))} // an error leaves it failed
			err := calls(t.Context(), store, tx)[name]()
			if want := fmt.Sprintf("is schema %q of this database migrated (inboxd migrate up)?", schema); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: want %q, got %v", name, want, err)
			}
			must(t, errors.Join(tx.pgx.Rollback(t.Context()), tx.sql.Rollback()))
		}
	}
}

// Without a database a Store does what takes a transaction.
func TestStoreWithoutADatabase(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, store := range []*inbox.Store{inbox.NewStore(nil, ""), inbox.NewStore((*pgxpool.Pool)(nil), "")} {
		tx := &stageTx{s.begin(), s.beginSQL(s.openSQL("pgx"))}
		for name, call := range calls(t.Context(), store, tx) {
			if name == "ClaimSQL" { // it would wait for the other one
				continue
			}
			err := call()
			inTx := strings.HasPrefix(name, "Add") || strings.HasPrefix(name, "Claim")
			if inTx && err != nil || !inTx && (!errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), "nil pool")) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if first, err := store.ClaimSQL(t.Context(), tx.sql, "c", "another"); !first || err != nil {
			t.Errorf("ClaimSQL: %v, %v", first, err)
		}
		must(t, errors.Join(tx.pgx.Rollback(t.Context()), tx.sql.Rollback()))
	}
}

func TestIngesterMadeWrongly(t *testing.T) {
	t.Parallel()
	decoder := inbox.Decoder(nil)
	for _, g := range []*inbox.Ingester{{}, {Store: inbox.NewStore(nil, ""), Decoder: decoder}} {
		if err := g.Ingest(t.Context(), []inbox.Record{{}}); !errors.Is(err, inbox.ErrInvalid) {
			t.Errorf("%v", err)
		}
	}
}
