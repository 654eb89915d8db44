package ordering_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// Whoever waits for a lane, an operator or a stop, waits for its transaction:
// slow handlers do not share one for long.
func TestSlowHandlersShareNoLongTransaction(t *testing.T) {
	forms := map[string]func(*testing.T) *handlers.Registry{
		"on": func(*testing.T) *handlers.Registry {
			reg := handlers.New()
			handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
				if _, err := tx.Exec(ctx, `select pg_sleep(case when $1 > 8 then 0.3 else 0 end)`, e.Position); err != nil {
					return err
				}
				return effect(ctx, tx, e.Message)
			})
			return reg
		},
		"sql": func(t *testing.T) *handlers.Registry {
			reg := handlers.New()
			must(t, handlers.SQL(reg, "Paid", appendEffect, `select pg_sleep(0.1)`))
			return reg
		},
	}
	most := map[string]int{"on": 1, "sql": 2}
	for name, registry := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.put("Paid", 1, 14)
			began := time.Now()
			s.run(registry(t), quick())
			s.inOrder(14)
			s.sound()
			if time.Since(began) < 14*100*time.Millisecond {
				t.Error("the handlers were not slow; nothing was tested")
			}
			// The first slow one may have shared its transaction with quick ones.
			if n := one[int](s, `select max(last_position - greatest(first_position, 9)) + 1 from inboxd.runs where last_position > 8`); n > most[name] {
				t.Errorf("%d events shared a transaction, want %d at most", n, most[name])
			}
		})
	}
}
