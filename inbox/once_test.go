package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// message is what a consumer of a team's own gets.
type message struct {
	id      string
	failing error
}

func messageID(m message) (string, error) {
	if m.id == "no id" {
		return "", errNoID
	}
	return m.id, nil
}

var errNoID, errHandler = errors.New("the message has no id"), errors.New("the handler failed")

// Each message is delivered several times, to several consumers at once.
func TestOnceOverRedelivery(t *testing.T) {
	t.Parallel()
	s := setup(t)
	db := s.openSQL("pgx")
	s.exec(`create table effects (id text, how text)`)
	handle := inbox.Once(s.store, "c", messageID, func(ctx context.Context, tx pgx.Tx, m message) error {
		_, err := tx.Exec(ctx, `insert into effects values ($1, 'pgx')`, m.id)
		return errors.Join(err, m.failing)
	})
	handleSQL := inbox.OnceSQL(s.store, "c", messageID, func(ctx context.Context, tx *sql.Tx, m message) error {
		_, err := tx.ExecContext(ctx, `insert into effects values ($1, 'sql')`, m.id)
		return errors.Join(err, m.failing)
	})
	const messages, consumers = 60, 6
	done := make(chan error, consumers)
	for c := range consumers {
		go func() {
			for i := range messages * 2 {
				m := message{id: fmt.Sprint((i*7 + c) % messages)}
				if i < messages && i%3 == c%3 {
					m.failing = errHandler // it comes again
				}
				if err := s.deliver(db, c%2 == 0, handle, handleSQL, m); err != nil && !errors.Is(err, errHandler) {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range consumers {
		must(t, soon(t, done))
	}
	if got := one[string](t, s.pool, `select count(*) || ' of ' || count(distinct id) from effects`); got != "60 of 60" {
		t.Errorf("effects: %s, want 60 of 60", got)
	}
	if got := one[int](t, s.pool, `select count(*) from inboxd.claims`); got != messages {
		t.Errorf("%d claims", got)
	}
}

// deliver is the inside of a consumer's loop.
func (s *stage) deliver(db *sql.DB, bySQL bool, handle func(context.Context, pgx.Tx, message) error,
	handleSQL func(context.Context, *sql.Tx, message) error, m message) error {
	ctx := context.WithoutCancel(s.t.Context())
	if !bySQL {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return handle(ctx, tx, m) })
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := handleSQL(ctx, tx, m); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func TestOnceErrors(t *testing.T) {
	t.Parallel()
	s := setup(t)
	ran := 0
	handle := inbox.Once(s.store, "c", messageID, func(context.Context, pgx.Tx, message) error { ran++; return nil })
	for m, want := range map[message]error{{id: "no id"}: errNoID, {id: ""}: inbox.ErrInvalid} {
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return handle(t.Context(), tx, m) })
		if !errors.Is(err, want) || ran > 0 {
			t.Errorf("%+v: %v, ran %d times", m, err, ran)
		}
	}
	failing := inbox.Once(s.store, "c", messageID, func(_ context.Context, _ pgx.Tx, m message) error { return m.failing })
	m := message{id: "e", failing: errHandler}
	for range 2 { // what failed was not claimed
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error { return failing(t.Context(), tx, m) })
		if !errors.Is(err, errHandler) {
			t.Errorf("of a handler that fails: %v", err)
		}
	}
	next := func(context.Context, pgx.Tx, message) error { return nil }
	for want, make := range map[string]func(){
		"no store":           func() { inbox.Once(nil, "c", messageID, next) },
		"consumer is empty":  func() { inbox.Once(s.store, "", messageID, next) },
		"a message's id":     func() { inbox.Once(s.store, "c", nil, next) },
		"no function to run": func() { inbox.Once[message](s.store, "c", messageID, nil) },
		"OnceSQL: the schema": func() {
			inbox.OnceSQL(inbox.NewStore(s.pool, "pg_x"), "c", messageID, func(context.Context, *sql.Tx, message) error { return nil })
		},
		"OnceSQL was given no ": func() { inbox.OnceSQL[*sql.Tx, message](s.store, "c", messageID, nil) },
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, want) {
					t.Errorf("want a panic with %q, got %q", want, v)
				}
			}()
			make()
		}()
	}
}
