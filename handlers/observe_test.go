package handlers_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var got []handlers.Observation
		reg := handlers.New()
		reg.Use(handlers.Metrics(func(_ context.Context, o handlers.Observation) { got = append(got, o) }))
		failed := errors.New("failed")
		handlers.OnBatch(reg, "A", func(context.Context, pgx.Tx, []handlers.Event[string]) error {
			time.Sleep(time.Second)
			return nil
		})
		handlers.On(reg, "B", func(context.Context, pgx.Tx, handlers.Event[string]) error { return failed })
		handlers.Alias(reg, "B0", "B")
		_ = run(t, reg, messages("A", "", "")...)
		_ = run(t, reg, message("B0", ""))
		want := []handlers.Observation{
			{Type: "A", Form: handlers.Batched, Events: 2, Took: time.Second, Outcome: handlers.Done},
			{Type: "B", Form: handlers.Direct, Events: 1, Outcome: handlers.Failed, Err: failed},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestTracing(t *testing.T) {
	t.Parallel()
	type key struct{}
	var ended []error
	var inside any
	reg := handlers.New()
	reg.Use(handlers.Tracing(func(ctx context.Context, call *handlers.Call) (context.Context, func(error)) {
		return context.WithValue(ctx, key{}, call.Type()), func(err error) { ended = append(ended, err) }
	}))
	failed := errors.New("failed")
	handlers.On(reg, "A", func(ctx context.Context, _ pgx.Tx, _ handlers.Event[string]) error {
		inside = ctx.Value(key{})
		return failed
	})
	handlers.On(reg, "B", func(context.Context, pgx.Tx, handlers.Event[string]) error { panic("oh no") })
	if err := run(t, reg, message("A", "")); !errors.Is(err, failed) || inside != "A" {
		t.Errorf("got %v in %v", err, inside)
	}
	wantText(t, panics(func() { _ = run(t, reg, message("B", "")) }), "oh no")
	if len(ended) != 2 || !errors.Is(ended[0], failed) || ended[1] == nil {
		t.Errorf("spans ended with %v", ended)
	}
}

// textLog is a logger into a buffer, without times.
func textLog(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var b bytes.Buffer
	return slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &b
}

func TestLogger(t *testing.T) {
	t.Parallel()
	log, lines := textLog(slog.LevelInfo)
	reg := handlers.New()
	handlers.On(reg, "A", func(ctx context.Context, _ pgx.Tx, _ handlers.Event[string]) error {
		handlers.Logger(ctx).Info("here")
		return nil
	})
	handlers.OnBatch(reg, "B", func(ctx context.Context, _ pgx.Tx, _ []handlers.Event[string]) error {
		handlers.Logger(ctx).Info("there")
		return nil
	})
	ctx := handlers.WithLogger(t.Context(), log)
	replayed := message("A", "secret")
	replayed.Replay, replayed.Attempt = true, 2
	_ = reg.Seal()["A"].Handle(ctx, &handlers.Call{Events: []*handlers.Message{replayed}})
	_ = reg.Seal()["B"].Handle(ctx, &handlers.Call{Events: messages("B", "secret", "secret")})
	handlers.Logger(ctx).Info("outside")
	tenants := handlers.New()
	tenants.Use(func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, call *handlers.Call) error {
			return next(handlers.WithLogFields(ctx, "tenant", "north"), call)
		}
	})
	handlers.On(tenants, "A", func(ctx context.Context, _ pgx.Tx, _ handlers.Event[string]) error {
		handlers.Logger(ctx).Info("of a tenant")
		return nil
	})
	_ = tenants.Seal()["A"].Handle(ctx, &handlers.Call{Events: messages("A", "secret")})
	const want = `level=INFO msg=here event_id=e-1 aggregate_id=order-7 event_type=A position=3 attempt=2 replay=true
level=INFO msg=there event_id=e-1 aggregate_id=order-7 event_type=B position=1 attempt=1 events=2
level=INFO msg=outside
level=INFO msg="of a tenant" tenant=north event_id=e-1 aggregate_id=order-7 event_type=A position=1 attempt=1
`
	if lines.String() != want {
		t.Errorf("got\n%s", lines)
	}
	if handlers.Logger(t.Context()) == nil {
		t.Error("there is no logger by default")
	}
}

func TestLogging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, lines := textLog(slog.LevelDebug)
		quiet, none := textLog(slog.LevelInfo)
		reg := handlers.New()
		reg.Use(handlers.Logging(log))
		handlers.On(reg, "A", done[string])
		handlers.On(reg, "B", func(context.Context, pgx.Tx, handlers.Event[string]) error {
			time.Sleep(time.Second)
			return handlers.Pause(errors.New("the bank is closed"))
		})
		handlers.On(reg, "C", done[string], handlers.WithMiddleware(handlers.Logging(quiet)))
		for _, eventType := range []string{"A", "B", "C"} {
			_ = run(t, reg, message(eventType, "secret"))
		}
		const want = `level=DEBUG msg="handler returned" event_id=e-1 aggregate_id=order-7 event_type=A position=3 attempt=1 outcome=done took=0s
level=DEBUG msg="handler returned" event_id=e-1 aggregate_id=order-7 event_type=B position=3 attempt=1 outcome=paused took=1s error="the bank is closed"
level=DEBUG msg="handler returned" event_id=e-1 aggregate_id=order-7 event_type=C position=3 attempt=1 outcome=done took=0s
`
		if lines.String() != want || none.Len() > 0 {
			t.Errorf("got\n%s%s", lines, none)
		}
	})
}
