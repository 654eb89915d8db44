package inbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/fault"
)

// claims fails the test unless these claims are committed, as consumer:event, in
// their order.
func (s *stage) claims(want string) {
	s.t.Helper()
	if got := one[string](s.t, s.pool, `select coalesce(string_agg(consumer || ':' || event_id, ' ' order by consumer, event_id), '')
		from inboxd.claims`); got != want {
		s.t.Errorf("the claims are %q, want %q", got, want)
	}
}

// claimer is a transaction in which events are claimed, of pgx or of database/sql.
type claimer struct {
	claim            func(consumer, id string) (bool, error)
	commit, rollback func() error
	pid              uint32
}

// claimers begins transactions: a function a kind.
func (s *stage) claimers() map[string]func() claimer {
	ctx := context.WithoutCancel(s.t.Context())
	all := map[string]func() claimer{"pgx.Tx": func() claimer {
		tx := s.begin()
		return claimer{
			func(consumer, id string) (bool, error) { return s.store.Claim(ctx, tx, consumer, id) },
			func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) }, pid(tx.Conn()),
		}
	}}
	for name := range drivers {
		db := s.openSQL(name)
		all[name] = func() claimer {
			tx := s.beginSQL(db)
			var pid uint32
			must(s.t, tx.QueryRowContext(ctx, `select pg_backend_pid()`).Scan(&pid))
			return claimer{
				func(consumer, id string) (bool, error) { return s.store.ClaimSQL(ctx, tx, consumer, id) },
				tx.Commit, tx.Rollback, pid,
			}
		}
	}
	return all
}

func TestClaim(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for kind, begin := range s.claimers() {
		tx := begin()
		claims := func(consumer, id string, want bool) {
			t.Helper()
			if first, err := tx.claim(consumer, id); first != want || err != nil {
				t.Errorf("%s: claim of %s for %s: %v, %v", kind, id, consumer, first, err)
			}
		}
		claims("billing", "e1", true)
		claims("billing", "e1", false)
		claims("Billing", "e1", true)
		s.claims("")
		must(t, tx.rollback())
		tx = begin()
		claims("billing", "e1", true) // what was rolled back was never claimed
		claims("billing", "e2", true)
		must(t, tx.commit())
		s.claims("billing:e1 billing:e2")
		const rows = `select string_agg(ctid::text || xmin::text, ' ' order by ctid) from inboxd.claims where consumer = 'billing'`
		before := one[string](t, s.pool, rows)
		tx = begin()
		claims("billing", "e1", false)
		claims("stock", "e1", true)
		claims("stock", "E1", true)
		must(t, tx.commit())
		if after := one[string](t, s.pool, rows); after != before {
			t.Errorf("%s: a claim that is no first one has written: %s, then %s", kind, before, after)
		}
		s.claims("billing:e1 billing:e2 stock:E1 stock:e1")
		s.exec(`truncate inboxd.claims`)
	}
}

func TestClaimAndSavepoints(t *testing.T) {
	t.Parallel()
	s := setup(t)
	tx := s.begin()
	for i, want := range []bool{true, true, false} {
		inner, err := tx.Begin(t.Context())
		must(t, err)
		if first, err := s.store.Claim(t.Context(), inner, "c", "e"); first != want || err != nil {
			t.Errorf("claim %d: %v, %v", i, first, err)
		}
		if i == 0 {
			must(t, inner.Rollback(t.Context()))
		} else {
			must(t, inner.Commit(t.Context()))
		}
	}
	must(t, tx.Commit(t.Context()))
	s.claims("c:e")
}

// The second of two that claim an event at once waits for the first to end, and
// hears how that ended.
func TestTwoClaimsAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	type answer struct {
		first bool
		err   error
	}
	for kind, begin := range s.claimers() {
		for end, want := range map[string]bool{"commit": false, "rollback": true} {
			id := kind + " " + end
			one, two := begin(), begin()
			if first, err := one.claim("c", id); !first || err != nil {
				t.Fatalf("%s: %v, %v", id, first, err)
			}
			if first, err := two.claim("c", "other "+id); !first || err != nil {
				t.Fatalf("another event: %v, %v", first, err)
			}
			done := make(chan answer, 1)
			go func() {
				first, err := two.claim("c", id)
				done <- answer{first, err}
			}()
			s.until(`select $2::int = any(pg_blocking_pids($1::int))`, two.pid, one.pid)
			if end == "commit" {
				must(t, one.commit())
			} else {
				must(t, one.rollback())
			}
			if got := soon(t, done); got.first != want || got.err != nil {
				t.Errorf("%s: %v, %v", id, got.first, got.err)
			}
			must(t, two.commit())
			s.exec(`select 1 / (select count(*)::int from inboxd.claims where event_id = $1)`, id)
		}
	}
}

// With a snapshot that is older than the claim nobody can say more than that it
// met another one.
func TestClaimUnderStricterIsolation(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for _, level := range isolations {
		id := string(level)
		before, after := s.beginTx(pgx.TxOptions{IsoLevel: level}), s.begin()
		one[int](t, before, `select count(*) from inboxd.claims`)
		if first, err := s.store.Claim(t.Context(), after, "c", id); !first || err != nil {
			t.Fatal(first, err)
		}
		must(t, after.Commit(t.Context()))
		if _, err := s.store.Claim(t.Context(), before, "c", id); fault.Of(err) != fault.Conflict {
			t.Errorf("%s: %v, want a serialization failure", level, err)
		}
		again := s.beginTx(pgx.TxOptions{IsoLevel: level})
		if first, err := s.store.Claim(t.Context(), again, "c", id); first || err != nil {
			t.Errorf("%s: %v, %v when run again", level, first, err)
		}
	}
}

// unstorable are names that nothing can have, and what is said of them.
var unstorable = map[string]string{
	"": "is empty", "a\x00b": "NUL", "a\xffb": "UTF-8", strings.Repeat("x", inbox.MaxName+1): "1025 bytes",
}

func TestClaimRefusesNames(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for kind, begin := range s.claimers() {
		tx := begin()
		for name, want := range unstorable {
			for field, call := range map[string]func() (bool, error){
				"event_id": func() (bool, error) { return tx.claim("c", name) },
				"consumer": func() (bool, error) { return tx.claim(name, "e") },
			} {
				if first, err := call(); first || !errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), field+" ") || !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s %.10q: %v, %v", kind, field, name, first, err)
				}
			}
		}
		longest := strings.Repeat("é", inbox.MaxName/2)
		if first, err := tx.claim(longest, longest); !first || err != nil { // the transaction is as good as new
			t.Errorf("%s: %v, %v", kind, first, err)
		}
		must(t, tx.rollback())
	}
	if _, err := s.store.Claim(t.Context(), nil, "c", "e"); !errors.Is(err, inbox.ErrInvalid) {
		t.Errorf("without a transaction: %v", err)
	}
}
