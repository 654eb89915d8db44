package inbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// age makes n claims of a consumer that were made so long ago.
func (s *stage) age(consumer string, n int, ago string) {
	s.t.Helper()
	s.exec(`insert into inboxd.claims (claimed_at, consumer, event_id)
		select now() - $3::text::interval - n * interval '1 ms', $1, 'e' || n from generate_series(1, $2::int) n`, consumer, n, ago)
}

func TestForgetClaims(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.age("old", 12_345, "48 h")
	s.age("young", 300, "23 h")
	held := s.begin() // somebody looks at one of them meanwhile
	_, err := held.Exec(t.Context(), `select 1 from inboxd.claims where consumer = 'old' and event_id = 'e77' for update`)
	must(t, err)
	n, err := s.store.ForgetClaims(t.Context(), 24*time.Hour)
	if n != 12_344 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
	must(t, held.Rollback(t.Context()))
	for _, want := range []int64{1, 0} {
		if n, err := s.store.ForgetClaims(t.Context(), 24*time.Hour); n != want || err != nil {
			t.Errorf("forgot %d, %v", n, err)
		}
	}
	if got := one[string](t, s.pool, `select string_agg(distinct consumer, ',') || count(*) from inboxd.claims`); got != "young300" {
		t.Errorf("left are %s", got)
	}
	for _, age := range []time.Duration{0, -time.Hour} {
		if _, err := s.store.ForgetClaims(t.Context(), age); !errors.Is(err, inbox.ErrInvalid) {
			t.Errorf("of an age of %s: %v", age, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.store.ForgetClaims(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// pages is a database that forgets one whole page of claims, and keeps what it was
// asked.
type pages struct {
	inbox.DB
	page  int64
	last  time.Time
	after []time.Time
}

func (p *pages) QueryRow(_ context.Context, _ string, args ...any) pgx.Row {
	p.after = append(p.after, args[0].(time.Time))
	if len(p.after) == 1 {
		p.page = int64(args[2].(int))
		return forgotten{p.page, &p.last}
	}
	return forgotten{}
}

type forgotten struct {
	n    int64
	last *time.Time
}

func (f forgotten) Scan(dest ...any) error {
	*dest[0].(*int64), *dest[1].(**time.Time) = f.n, f.last
	return nil
}

// A page begins where the one before it ended, and not again at what that left dead.
func TestForgettingGoesOn(t *testing.T) {
	t.Parallel()
	db := &pages{last: time.Unix(1e9, 0)}
	n, err := inbox.NewStore(db, "").ForgetClaims(t.Context(), time.Hour)
	if n != db.page || err != nil || len(db.after) != 2 || !db.after[0].IsZero() || !db.after[1].Equal(db.last) {
		t.Errorf("forgot %d, %v, in pages after %v", n, err, db.after)
	}
}

// A claim that is being forgotten is there or not: who claims it meanwhile waits
// for the end.
func TestForgetMeetsClaim(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.age("c", 1, "48 h")
	forgetting, claiming := s.begin(), s.begin()
	one[int](t, forgetting, `select forgotten from inboxd.forget_claims('-infinity', now(), 10)`)
	done := make(chan bool, 1)
	go func() {
		first, err := s.store.Claim(context.WithoutCancel(t.Context()), claiming, "c", "e1")
		if err != nil {
			t.Error(err)
		}
		done <- first
	}()
	s.untilBlocked(claiming.Conn(), forgetting.Conn())
	must(t, forgetting.Commit(t.Context()))
	if !soon(t, done) {
		t.Error("the claim was forgotten, but claiming it again is no first claim")
	}
	must(t, claiming.Commit(t.Context()))
	s.claims("c:e1")
}

// A batch costs what it deletes, however many claims there are, also under a
// snapshot that keeps what the batches before it left dead.
func TestForgettingDoesNotGrow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`alter table inboxd.claims set (autovacuum_enabled = off)`)
	snapshot := s.beginTx(pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	one[int](t, snapshot, `select count(*) from inboxd.claims`)
	s.age("old", 20_000, "48 h")
	s.age("young", 20_000, "1 h")
	const batch = 100
	after := time.Time{}
	for i := range 50 {
		const call = `select forgotten from inboxd.forget_claims($1, now() - interval '1 day', $2)`
		conn, err := s.pool.Acquire(t.Context())
		must(t, err)
		got := measure(t, conn.Conn(), call, after, batch)
		conn.Release()
		if i > 0 && (got.tuples > 10*batch || got.buffers > 40*batch) { // a new session reads the catalog
			t.Fatalf("batch %d costs %+v", i, got)
		}
		must(t, s.pool.QueryRow(t.Context(), `select last from inboxd.forget_claims($1, now() - interval '1 day', $2)`, after, batch).Scan(&after))
	}
	if got := one[int](t, s.pool, `select count(*) from inboxd.claims`); got != 35_000 {
		t.Errorf("%d claims are left", got)
	}
}
