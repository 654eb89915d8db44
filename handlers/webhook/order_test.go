package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/handlers/webhook"
	"github.com/inboxd/inboxd/inbox"
)

// Events of an aggregate arrive in order, one at a time, whatever is answered in
// between; each attempt of one has the same key.
func TestOrderAndKeys(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 10, 10)
	var calls atomic.Int64
	e := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		if n := calls.Add(1); n%5 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		} else if n%7 == 0 {
			panic(http.ErrAbortHandler)
		}
	})
	cfg := config()
	cfg.Retry.Attempts = 50
	reg := handlers.New()
	hook(t, webhook.Config{URL: e.URL, Concurrency: 3}).On(reg, "Shipped")
	s.run(reg, cfg)
	last := map[string]int{}
	for _, r := range e.requests() {
		aggregate := r.header.Get("Inboxd-Aggregate-Id")
		var position int
		_, err := fmt.Sscan(r.header.Get("Inboxd-Position"), &position)
		must(t, err)
		if position != last[aggregate] && position != last[aggregate]+1 {
			t.Errorf("%s: position %d after %d", aggregate, position, last[aggregate])
		}
		last[aggregate] = position
		if want := fmt.Sprintf("%s-%d", aggregate, position-1); r.key != want || string(r.body) != fmt.Sprint(position-1) {
			t.Errorf("key %s, body %s, want %s", r.key, r.body, want)
		}
	}
	if n := one[int](s, `select count(*) from inboxd.events where processed_at is not null`); n != 100 {
		t.Errorf("%d processed", n)
	}
}

// Each event has a transaction of its own: one that fails has no other sent again.
func TestNeighboursAreNotSentAgain(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 4, 8)
	failed := map[string]bool{}
	var mu sync.Mutex
	e := answering(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		if strings.HasSuffix(key, "-5") && !failed[key] {
			failed[key] = true
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	cfg := config()
	cfg.Workers = 1 // so that there is a backlog, in which lanes share transactions
	reg := handlers.New()
	hook(t, webhook.Config{URL: e.URL}).On(reg, "Shipped")
	s.run(reg, cfg)
	sent := map[string]int{}
	for _, r := range e.requests() {
		sent[r.key]++
	}
	for key, n := range sent {
		if want := map[bool]int{true: 2, false: 1}[strings.HasSuffix(key, "-5")]; n != want {
			t.Errorf("%s was sent %d times", key, n)
		}
	}
	if turns := one[int](s, `select count(*) from inboxd.runs`); turns != 32 {
		t.Errorf("%d turns for 32 events", turns)
	}
}

// Events of other types do not share its transaction either, before it or behind.
func TestNeighboursOfOtherTypes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var events []inbox.Event
	for i := range 12 {
		events = append(events, inbox.Event{ID: fmt.Sprint(i), AggregateID: "a", Type: []string{"Paid", "Paid", "Shipped"}[i%3]})
	}
	_, err := inbox.NewStore(s.pool, "").Put(t.Context(), events)
	must(t, err)
	e := answering(t, nil)
	reg := handlers.New()
	hook(t, webhook.Config{URL: e.URL}).On(reg, "Shipped")
	must(t, handlers.SQL(reg, "Paid", `insert into effects values (@event_id)`))
	s.run(reg, config())
	got := one[string](s, `select string_agg(first_position || '-' || last_position, ' ' order by first_position) from inboxd.runs`)
	if got != "1-2 3-3 4-5 6-6 7-8 9-9 10-11 12-12" {
		t.Errorf("turns %s", got)
	}
}

// No more requests are under way than Concurrency allows, and all arrive.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 8, 3)
	var under, most atomic.Int64
	e := answering(t, func(http.ResponseWriter, *http.Request) {
		n := under.Add(1)
		defer under.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-time.After(20 * time.Millisecond) // for others to come, were they let
	})
	reg := handlers.New(handlers.WithRetry(handlers.Retry{Never: true}))
	hook(t, webhook.Config{URL: e.URL, Concurrency: 2}).On(reg, "Shipped")
	s.run(reg, config())
	if most.Load() > 2 || len(e.requests()) != 24 {
		t.Errorf("%d at once, %d in all", most.Load(), len(e.requests()))
	}
}

// What breaks between the answer and the commit has the event sent again, with the
// same key, and nothing is passed over.
func TestSentAgainAfterALostCommit(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 1, 3)
	var calls atomic.Int64
	e := answering(t, func(http.ResponseWriter, *http.Request) {
		if calls.Add(1) == 2 { // the session that holds the lane ends; the answer is 200
			var n int
			if err := s.pool.QueryRow(context.Background(), `select count(pg_terminate_backend(pid)) from pg_stat_activity
				where datname = current_database() and state = 'idle in transaction'`).Scan(&n); err != nil || n != 1 {
				t.Errorf("%d sessions ended: %v", n, err)
			}
		}
	})
	reg := handlers.New()
	hook(t, webhook.Config{URL: e.URL}).On(reg, "Shipped")
	s.run(reg, config())
	keys := make([]string, 0, 4)
	for _, r := range e.requests() {
		keys = append(keys, r.key)
	}
	if got := strings.Join(keys, " "); got != "Shipped-0-0 Shipped-0-1 Shipped-0-1 Shipped-0-2" {
		t.Errorf("sent: %s", got)
	}
	if n := one[int](s, `select count(*) from inboxd.failures`); n != 0 {
		t.Errorf("%d failures on record", n)
	}
}
