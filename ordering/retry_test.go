package ordering

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"github.com/inboxd/inboxd/handlers"
)

// The wait doubles with each attempt, a quarter more or less, and never exceeds
// its limit.
func TestRetryWaitsWithinBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		initial := time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(t, "initial"))
		limit := time.Duration(rapid.Int64Range(int64(initial), int64(24*time.Hour)).Draw(t, "max"))
		n := rapid.IntRange(1, 1_000_000_000).Draw(t, "n")
		ideal := initial
		for i := 1; i < n && ideal < limit; i++ {
			ideal = min(2*ideal, limit)
		}
		got := Retry{Initial: initial, Max: limit, Attempts: n}.withDefaults().wait(n)
		if got < ideal*74/100 || got > ideal*126/100 || got > limit {
			t.Fatalf("the wait after attempt %d is %s, want %s within a quarter and at most %s", n, got, ideal, limit)
		}
	})
}

func TestRetryWaitsDiffer(t *testing.T) {
	t.Parallel()
	r := Retry{Initial: time.Second, Max: time.Minute}.withDefaults()
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[r.wait(3)] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 waits have only %d lengths: lanes that failed together come back together", len(seen))
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	p := &Processor{policies: policies{
		common: Retry{Initial: time.Second, Max: time.Minute, Attempts: 3, Permanent: []string{"23", "22012"}, Transient: []string{"42501", "23P01", "22", "22012"}}.withDefaults(),
		byType: map[string]Retry{"Never": {Attempts: 1}},
	}}
	plain := errors.New("no")
	tests := []struct {
		name        string
		eventType   string
		err         error
		used        int
		skip        bool
		counted     bool
		stuck       bool
		least, most time.Duration
	}{
		{name: "first failure", err: plain, counted: true, least: 750 * time.Millisecond, most: 1250 * time.Millisecond},
		{name: "second failure", err: plain, used: 1, counted: true, least: 1500 * time.Millisecond, most: 2500 * time.Millisecond},
		{name: "last failure", err: plain, used: 2, counted: true, stuck: true},
		{name: "more than the last", err: plain, used: 7, counted: true, stuck: true},
		{name: "permanent", err: fmt.Errorf("x: %w", handlers.Permanent(plain)), counted: true, stuck: true},
		{name: "skip", err: fmt.Errorf("x: %w", handlers.Skip(plain)), used: 2, skip: true},
		{name: "pause", err: handlers.Pause(plain), used: 2, least: 12 * time.Second, most: 20 * time.Second},
		{name: "retry after", err: handlers.RetryAfter(plain, time.Hour), counted: true, least: time.Hour, most: time.Hour},
		{name: "retry after, the last", err: handlers.RetryAfter(plain, time.Hour), used: 2, counted: true, stuck: true},
		{name: "later", err: handlers.Later(plain, time.Hour), used: 2, least: time.Hour, most: time.Hour},
		{name: "of a type that is never tried again", eventType: "Never", err: plain, counted: true, stuck: true},
		{name: "permanent by its class", err: fmt.Errorf("x: %w", &pgconn.PgError{Code: "23505"}), counted: true, stuck: true},
		{name: "transient by its state", err: &pgconn.PgError{Code: "42501"}, used: 2, least: 12 * time.Second, most: 20 * time.Second},
		{name: "transient by its state, though its class is permanent", err: &pgconn.PgError{Code: "23P01"}, used: 2, least: 12 * time.Second, most: 20 * time.Second},
		{name: "transient by its class", err: &pgconn.PgError{Code: "22P02"}, used: 2, least: 12 * time.Second, most: 20 * time.Second},
		{name: "both by its state", err: &pgconn.PgError{Code: "22012"}, counted: true, stuck: true},
		{name: "another state of its class", err: &pgconn.PgError{Code: "42P01"}, used: 2, counted: true, stuck: true},
		{name: "no handler", err: fmt.Errorf("%w %q", ErrNoHandler, "X"), stuck: true},
		{name: "gap", err: fmt.Errorf("%w: position 3", ErrGap), stuck: true},
		{name: "conflict", err: &waitError{after: time.Second, err: plain}, used: 2, least: time.Second, most: time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			v := p.judge(&failure{err: test.err, eventType: test.eventType}, test.used)
			if v.skip != test.skip || v.counted != test.counted || v.stuck != test.stuck || v.after < test.least || v.after > test.most {
				t.Errorf("judged %+v, want %+v", v, test)
			}
		})
	}
}
