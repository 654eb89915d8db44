package service_test

import (
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/service"
)

// lazyPool is a pool that nobody uses.
func lazyPool(t *testing.T, maxConns int32) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig("postgres://nobody@127.0.0.1:1/nothing")
	if err != nil {
		t.Fatal(err)
	}
	c.MaxConns = maxConns
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func TestMistakesAreFoundBeforeItRuns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*service.Options)
		want   string
	}{
		"a short lease":      {func(o *service.Options) { o.Config.Lanes.Lease = time.Second }, "Lease is 1s"},
		"an unknown format":  {func(o *service.Options) { o.Config.Kafka.Format = "xml" }, "xml"},
		"no topics":          {func(*service.Options) {}, "topics"},
		"a start without it": {func(o *service.Options) { o.Config.Kafka.Start = "then" }, "then"},
		"an endless drain":   {func(o *service.Options) { o.UntilIdle = true }, "UntilIdle needs LanesOnly"},
		"nothing":            {func(o *service.Options) { o.LanesOnly = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := service.Options{
				Config: config.Default(), Pool: lazyPool(t, 30), Registry: handlers.New(), Log: slog.New(slog.DiscardHandler),
			}
			tc.change(&o)
			_, err := service.New(o)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestWorkersLeaveRoomInThePool(t *testing.T) {
	t.Parallel()
	for maxConns, warned := range map[int32]bool{21: false, 20: true, 2: true} {
		var log strings.Builder
		_, err := service.New(service.Options{
			Config: config.Default(), Pool: lazyPool(t, maxConns), Registry: handlers.New(), LanesOnly: true,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "fewer workers than configured"); got != warned {
			t.Errorf("%d connections: warned %t, want %t: %s", maxConns, got, warned, log.String())
		}
	}
}

func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	var a, b service.Counts
	va, vb := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	for i := range va.NumField() {
		va.Field(i).SetInt(int64(i + 1))
		vb.Field(i).SetInt(100)
	}
	sum := reflect.ValueOf(a.Plus(b))
	difference := reflect.ValueOf(a.Minus(b))
	for i := range sum.NumField() {
		if got := sum.Field(i).Int(); got != int64(i+101) {
			t.Errorf("%s is %d", sum.Type().Field(i).Name, got)
		}
		if got := difference.Field(i).Int(); got != int64(i-99) {
			t.Errorf("%s is %d", sum.Type().Field(i).Name, got)
		}
	}
}
