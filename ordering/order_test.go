package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

func TestEachEventOnceInOrder(t *testing.T) {
	forms := map[string]func(*testing.T) *handlers.Registry{
		"sql": func(t *testing.T) *handlers.Registry { return sqlRegistry(t, "Paid") },
		"on": func(*testing.T) *handlers.Registry {
			reg := handlers.New()
			handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[struct{ N int }]) error {
				return effect(ctx, tx, e.Message)
			})
			return reg
		},
		"queue": func(*testing.T) *handlers.Registry {
			reg := handlers.New()
			handlers.OnQueue(reg, "Paid", func(_ context.Context, b *pgx.Batch, e handlers.Event[[]byte]) error {
				b.Queue(`insert into effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Position)
				return nil
			})
			return reg
		},
		"batch": func(*testing.T) *handlers.Registry {
			reg := handlers.New()
			handlers.OnBatch(reg, "Paid", func(ctx context.Context, tx pgx.Tx, events []handlers.Event[[]byte]) error {
				for _, e := range events {
					if err := effect(ctx, tx, e.Message); err != nil {
						return err
					}
				}
				return nil
			})
			return reg
		},
	}
	for name, registry := range forms {
		for _, batch := range []int{1, 16} {
			t.Run(fmt.Sprintf("%s/batch=%d", name, batch), func(t *testing.T) {
				t.Parallel()
				s := setup(t)
				s.put("Paid", 50, 40)
				cfg := quick()
				cfg.Batch = batch
				s.run(registry(t), cfg)
				s.inOrder(2000)
				if n := one[int](s, `select count(*) from inboxd.events where processed_at is null or attempts <> 1`); n != 0 {
					t.Errorf("%d events are not processed at their first attempt", n)
				}
				if n := one[int](s, `select count(*) from inboxd.aggregates where pending or parked`); n != 0 {
					t.Errorf("%d lanes are still pending or parked", n)
				}
			})
		}
	}
}

// One event fails twice and then succeeds, another never does: their
// aggregates wait, nobody else does.
func TestFailureHoldsUpItsOwnLaneOnly(t *testing.T) {
	for _, form := range []string{"on", "queue", "batch"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.put("Paid", 20, 30)
			attempts := make(chan string, 100)
			judge := func(m handlers.Message) error {
				switch {
				case m.ID == "Paid-3-7" && m.Attempt < 3:
					attempts <- fmt.Sprint("a", m.Attempt)
					return errors.New("not yet")
				case m.ID == "Paid-5-0":
					attempts <- fmt.Sprint("b", m.Attempt)
					return errors.New("never 17")
				}
				return nil
			}
			reg := handlers.New()
			switch form {
			case "on":
				handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
					if err := effect(ctx, tx, e.Message); err != nil {
						return err
					}
					return judge(e.Message)
				})
			case "queue":
				handlers.OnQueue(reg, "Paid", func(_ context.Context, b *pgx.Batch, e handlers.Event[[]byte]) error {
					b.Queue(`insert into effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Position)
					return judge(e.Message)
				})
			case "batch":
				handlers.OnBatch(reg, "Paid", func(ctx context.Context, tx pgx.Tx, events []handlers.Event[[]byte]) error {
					for _, e := range events {
						if err := effect(ctx, tx, e.Message); err != nil {
							return err
						}
						if len(events) > 1 && (e.ID == "Paid-3-7" || e.ID == "Paid-5-0") {
							return errors.New("one of many")
						}
						if err := judge(e.Message); err != nil {
							return err
						}
					}
					return nil
				})
			}
			s.run(reg, quick())
			s.inOrder(570)
			close(attempts)
			seen := map[string]int{}
			for a := range attempts {
				seen[a]++
			}
			want := map[string]int{"a1": 1, "a2": 1, "b1": 1, "b2": 1, "b3": 1, "b4": 1}
			if fmt.Sprint(seen) != fmt.Sprint(want) {
				t.Errorf("failed attempts %v, want %v", seen, want)
			}
			if n := one[int](s, `select attempts from inboxd.events where event_id = 'Paid-3-7'`); n != 3 {
				t.Errorf("the event that failed twice has %d attempts, want 3", n)
			}
			if got := one[string](s, `select state || ' ' || attempts || ' ' || error_message from inboxd.lanes where state <> 'ready'`); got != "stuck 4 never 17" {
				t.Errorf("the held lane is %q", got)
			}
			if n := one[int](s, `select count(*) from inboxd.aggregates where pending and not parked`); n != 0 {
				t.Errorf("%d lanes are in the sweep's reach, want 0", n)
			}
		})
	}
}

func TestUnknownTypeIsStuckAndIgnoredTypePasses(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Viewed", 2, 2)
	s.put("Strange", 1, 1)
	s.put("Paid", 3, 2)
	reg := sqlRegistry(t, "Paid")
	reg.Ignore("Viewed")
	s.run(reg, quick())
	if n := one[int](s, `select count(*) from effects`); n != 4 {
		t.Errorf("%d effects, want 4", n)
	}
	if got := one[string](s, `select aggregate_id || ': ' || error_message from inboxd.lanes where state = 'stuck'`); got != `agg-0: no handler is registered for event type "Strange"` {
		t.Errorf("stuck: %q", got)
	}
}

func TestTwoProcessorsShareTheLanes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 40, 50)
	reg := sqlRegistry(t, "Paid")
	cfg := quick()
	cfg.UntilIdle = false
	s.start(reg, cfg)
	s.start(reg, cfg)
	s.put("More", 0, 0)
	s.until(`select count(*) = 2000 from effects`)
	s.inOrder(2000)
}

func TestNewEventsOfAnIdleLaneRun(t *testing.T) {
	t.Parallel()
	s := setup(t)
	reg := sqlRegistry(t, "A", "B")
	cfg := quick()
	cfg.UntilIdle = false
	p := s.start(reg, cfg)
	s.put("A", 5, 5)
	s.until(`select count(*) = 25 from effects`)
	s.put("B", 5, 5)
	s.until(`select count(*) = 50 from effects`)
	s.inOrder(50)
	counts(t, p, "50 events processed", func(st ordering.Stats) bool { return st.Processed == 50 })
}
