package payments_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/inboxd/inboxd/examples/payments"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inboxtest"
)

// fakeBank keeps its transfers in a table of the test's database, one a key.
const bankTable = `; create table bank (key text primary key, iban text not null, cents bigint not null)`

type fakeBank struct {
	*httptest.Server
	down atomic.Bool
}

func newFakeBank(t *testing.T, kit *inboxtest.Kit) *fakeBank {
	t.Helper()
	bank := &fakeBank{}
	bank.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		switch {
		case bank.down.Load():
			http.Error(w, "come back later", http.StatusServiceUnavailable)
			return
		case key == "":
			http.Error(w, "no key", http.StatusBadRequest)
			return
		}
		_, err := kit.Pool().Exec(r.Context(), `insert into bank values ($1, $2, $3::bigint) on conflict do nothing`,
			key, r.FormValue("iban"), r.FormValue("cents"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "receipt for "+key)
	}))
	t.Cleanup(bank.Close)
	return bank
}

func (b *fakeBank) handlers() *handlers.Registry {
	return payments.Handlers(payments.HTTPBank{URL: b.URL, Client: b.Client()})
}

func options() inboxtest.Options { return inboxtest.Options{Setup: payments.Tables + bankTable} }

func TestBalances(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, options())
	kit.Add(
		inboxtest.Event("alice", "Deposited", payments.Deposited{Cents: 900}),
		inboxtest.Event("alice", "Paid", payments.Paid{Payment: "p1", Cents: 300}),
		inboxtest.Event("alice", "Paid", payments.Paid{Payment: "p2", Cents: 100}),
		inboxtest.Event("alice", "Refunded", payments.Refunded{Payment: "p1"}),
		inboxtest.Event("alice", "PayoutAsked", payments.PayoutAsked{IBAN: "DE1", Cents: 50}),
	)
	kit.Run(newFakeBank(t, kit).handlers())
	kit.AssertAllDone()
	if got := inboxtest.Get[int64](kit, `select cents from balances where account = 'alice'`); got != 750 {
		t.Errorf("alice has %d cents", got)
	}
	if got := inboxtest.Get[string](kit, `select receipt from payouts`); got != "receipt for e5:payout" {
		t.Errorf("the receipt is %q", got)
	}
}

// What a person has to look at stops one account, and no other.
func TestRefusals(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, options())
	kit.Add(
		inboxtest.Event("alice", "Deposited", payments.Deposited{Cents: payments.Limit * 2}),
		inboxtest.Event("alice", "Paid", payments.Paid{Payment: "p1", Cents: payments.Limit + 1}),
		inboxtest.Event("bob", "Deposited", payments.Deposited{Cents: 10}),
		inboxtest.Event("bob", "Paid", payments.Paid{Payment: "p2", Cents: 11}),
		inboxtest.Event("carol", "Deposited", payments.Deposited{Cents: 10}),
		inboxtest.Event("carol", "Refunded", payments.Refunded{Payment: "p1"}),
		inboxtest.Event("dave", "Deposited", payments.Deposited{Cents: 10}),
	)
	kit.Run(newFakeBank(t, kit).handlers())
	kit.AssertStuck("alice", "e2", payments.ErrLimit.Error())
	kit.AssertStuck("bob", "e4", payments.ErrOverdrawn.Error())
	kit.AssertStuck("carol", "e6", payments.ErrNoPayment.Error())
	kit.AssertProcessed("dave", "e7")
	if alice, bob := kit.Lane("alice").Attempts, kit.Lane("bob").Attempts; alice != 1 || bob != 10 {
		t.Errorf("alice's payment was tried %d times, bob's %d times", alice, bob)
	}
}

// A bank that is down costs no attempt, and holds up nothing but payouts.
func TestBankIsDown(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, options())
	bank := newFakeBank(t, kit)
	bank.down.Store(true)
	kit.Add(
		inboxtest.Event("alice", "Deposited", payments.Deposited{Cents: 100}),
		inboxtest.Event("alice", "PayoutAsked", payments.PayoutAsked{IBAN: "DE1", Cents: 60}),
		inboxtest.Event("bob", "Deposited", payments.Deposited{Cents: 100}),
	)
	kit.Run(bank.handlers())
	kit.AssertProcessed("alice", "e1")
	kit.AssertProcessed("bob", "e3")
	bank.down.Store(false)
	kit.Run(bank.handlers())
	kit.AssertAllDone()
	if got := inboxtest.Get[int64](kit, `select cents from bank`); got != 60 {
		t.Errorf("the bank sent %d cents", got)
	}
}

// Duplicates, crashes, failing statements, other orders: money moves once.
func TestMoneyMovesOnce(t *testing.T) {
	t.Parallel()
	inboxtest.Check(t, inboxtest.Case{
		Options:  options(),
		Handlers: func(kit *inboxtest.Kit) *handlers.Registry { return newFakeBank(t, kit).handlers() },
		Outside:  []string{"bank"},
		Stuck:    true, // carol's last payment
		Events: []inbox.Event{
			inboxtest.Event("alice", "Deposited", payments.Deposited{Cents: 900}),
			inboxtest.Event("bob", "Deposited", payments.Deposited{Cents: 100}),
			inboxtest.Event("alice", "Paid", payments.Paid{Payment: "p1", Cents: 300}),
			inboxtest.Event("bob", "PayoutAsked", payments.PayoutAsked{IBAN: "DE2", Cents: 70}),
			inboxtest.Event("alice", "Refunded", payments.Refunded{Payment: "p1"}),
			inboxtest.Event("alice", "PayoutAsked", payments.PayoutAsked{IBAN: "DE1", Cents: 900}),
			inboxtest.Event("carol", "Deposited", payments.Deposited{Cents: payments.Limit * 2}),
			inboxtest.Event("carol", "Paid", payments.Paid{Payment: "p3", Cents: payments.Limit + 1}),
		},
	})
}
