package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/internal/postgres"
)

func TestServerEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	dir := pgtest.Dir(t)
	kill, _ := owner(t, dir)
	if _, err := postgres.Attach(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	kill()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		_, err := postgres.Attach(t.Context(), dir)
		if errors.Is(err, postgres.ErrNotRunning) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server lives on without its owner: %v", err)
		}
	}
}
