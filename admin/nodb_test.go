package admin_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/admin"
)

// An Admin without a database says so at each call.
func TestWithoutADatabase(t *testing.T) {
	t.Parallel()
	var pool *pgxpool.Pool
	for name, a := range map[string]*admin.Admin{"nil": admin.New(nil, ""), "nil pool": admin.New(pool, "")} {
		calls := map[string]error{}
		_, calls["Lane"] = a.Lane(t.Context(), "order-1")
		_, calls["Apply"] = a.Apply(t.Context(), admin.Retry, admin.By{}, admin.Target{AggregateID: "order-1"})
		_, calls["Verify"] = a.Verify(t.Context(), admin.VerifyOptions{})
		_, calls["Event"] = a.Event(t.Context(), "ev-1")
		for _, err := range a.Lanes(t.Context(), admin.Filter{}) {
			calls["Lanes"] = err
		}
		for call, err := range calls {
			if !errors.Is(err, admin.ErrNoDB) {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
	}
}
