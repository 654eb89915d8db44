package admin_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/admin"
)

type tracer struct{}
type key struct{}

func (tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, key{}, [2]any{time.Now(), d.SQL})
}
func (tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	v, ok := ctx.Value(key{}).([2]any)
	if !ok {
		return
	}
	if e := time.Since(v[0].(time.Time)); e > 5*time.Millisecond {
		fmt.Printf("%8s  %.90q\n", e.Round(time.Millisecond), v[1])
	}
}

func TestScratch(t *testing.T) {
	url := os.Getenv("SCRATCH")
	if url == "" {
		return
	}
	cfg, _ := pgxpool.ParseConfig(url)
	cfg.ConnConfig.Tracer = tracer{}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	defer pool.Close()
	a := admin.New(pool, "")
	step := func(name string, f func()) {
		start := time.Now()
		f()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Printf("%-40s %8s heap %d MiB sys %d MiB\n", name, time.Since(start).Round(time.Millisecond), m.HeapAlloc>>20, m.Sys>>20)
	}
	ctx := t.Context()
	list := func(f admin.Filter) func() {
		return func() {
			n := 0
			for _, err := range a.Lanes(ctx, f) {
				must(t, err)
				n++
			}
			fmt.Println("   ", n, "lanes")
		}
	}
	if os.Getenv("ONLY") == "" {
		step("first 100", list(admin.Filter{Limit: 100}))
		step("stuck all", list(admin.Filter{State: admin.Stuck}))
		step("all", list(admin.Filter{}))
		step("idle", list(admin.Filter{State: admin.Idle}))
		step("error", list(admin.Filter{Error: "aaaaaaaaaaaa"}))
		step("error+state", list(admin.Filter{Error: "aaaaaaaaaaaa", State: admin.Stuck}))
		step("type", list(admin.Filter{Type: "OrderViewed"}))
		step("older", list(admin.Filter{OlderThan: 24 * time.Hour}))
		step("count", func() { n, err := a.CountLanes(ctx, admin.Filter{}); fmt.Println("   ", n, err) })
		step("count type", func() {
			n, err := a.CountLanes(ctx, admin.Filter{Type: "OrderViewed"})
			fmt.Println("   ", n, err)
		})
		step("count error", func() {
			n, err := a.CountLanes(ctx, admin.Filter{Error: "aaaaaaaaaaaa"})
			fmt.Println("   ", n, err)
		})
		step("show", func() { _, err := a.Lane(ctx, "customer-40"); must(t, err) })
		ev := func(f admin.EventFilter) func() {
			return func() {
				n := 0
				for _, err := range a.Events(ctx, f) {
					must(t, err)
					n++
				}
				fmt.Println("   ", n, "events")
			}
		}
		step("events of one", ev(admin.EventFilter{AggregateID: "customer-40"}))
		step("events newest", ev(admin.EventFilter{Limit: 100}))
		step("events type", ev(admin.EventFilter{Limit: 100, Type: "OrderPaid"}))
		step("events count", func() { n, err := a.CountEvents(ctx, admin.EventFilter{Type: "OrderPaid"}); fmt.Println("   ", n, err) })
	}
	step("verify", func() {
		r, err := a.Verify(ctx, admin.VerifyOptions{})
		must(t, err)
		fmt.Println("   ", r.Aggregates, r.Events, len(r.Violations), r.More)
		for i, v := range r.Violations {
			if i < 5 {
				fmt.Println("   ", v.Kind, v.AggregateID, *v.Position, v.Detail)
			}
		}
	})
	step("verify one", func() {
		r, err := a.Verify(ctx, admin.VerifyOptions{AggregateID: "customer-40"})
		must(t, err)
		fmt.Println("   ", r.Aggregates, r.Events, len(r.Violations), r.More)
	})
	step("verify since", func() {
		r, err := a.Verify(ctx, admin.VerifyOptions{Since: time.Now().Add(-110 * time.Hour)})
		must(t, err)
		fmt.Println("   ", r.Aggregates, r.Events, len(r.Violations), r.More)
	})
}
