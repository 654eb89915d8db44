package inboxtest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inboxtest"
	"github.com/inboxd/inboxd/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// recorder is a test that keeps what went wrong in it.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	said     strings.Builder
	failed   bool
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	fmt.Fprintf(&r.said, format+"\n", args...)
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// try runs a test of its own and answers whether it failed, and what it said.
func try(t *testing.T, test func(inboxtest.T)) (failed bool, said string) {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, f := range slices.Backward(r.cleanups) {
				f()
			}
		}()
		test(r)
	}()
	<-done
	return r.failed, r.said.String()
}

const accounts = `
create table seen (id text primary key);
create table accounts (id text primary key, cents bigint not null);
create table entries (id bigint generated always as identity primary key, account text not null, event text not null, cents bigint not null check (cents > -5000), at timestamptz not null default now())`

type moved struct {
	Cents int64 `json:"cents"`
}

// deposit is a handler without a fault.
func deposit(ctx context.Context, tx pgx.Tx, e handlers.Event[moved]) error {
	if _, err := tx.Exec(ctx, `insert into entries (account, event, cents) values ($1, $2, $3)`,
		e.AggregateID, e.ID, e.Data.Cents); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `insert into accounts values ($1, $2) on conflict (id) do update set cents = accounts.cents + excluded.cents`,
		e.AggregateID, e.Data.Cents)
	return err
}

// direct makes a case of one On handler.
func direct(handle func(k *inboxtest.Kit) func(context.Context, pgx.Tx, handlers.Event[moved]) error) inboxtest.Case {
	return inboxtest.Case{
		Options: inboxtest.Options{Setup: accounts},
		Handlers: func(k *inboxtest.Kit) *handlers.Registry {
			reg := handlers.New()
			handlers.On(reg, "Moved", handle(k))
			return reg
		},
		Events: events(),
		Rounds: 2,
	}
}

func events() []inbox.Event {
	return []inbox.Event{
		inboxtest.Event("alice", "Moved", moved{500}),
		inboxtest.Event("bob", "Moved", moved{100}),
		inboxtest.Event("alice", "Moved", moved{-200}),
		inboxtest.Event("carol", "Moved", moved{7}),
		inboxtest.Event("bob", "Moved", moved{-30}),
	}
}

func good() inboxtest.Case {
	return direct(func(*inboxtest.Kit) func(context.Context, pgx.Tx, handlers.Event[moved]) error { return deposit })
}
