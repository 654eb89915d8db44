package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
)

// The ready ones, for all handlers and for one.
func ExampleRegistry_Use() {
	bank := handlers.RateLimit(10, 1) // one limit for both types
	reg := handlers.New()
	reg.Use(
		handlers.Recover(),
		handlers.Logging(slog.Default()),
		handlers.Validate(func(v interface{ Validate() error }) error { return v.Validate() }),
		handlers.Timeout(20*time.Second),
	)
	handlers.On(reg, "OrderPaid", done[OrderPaid], handlers.WithMiddleware(bank))
	handlers.On(reg, "OrderRefunded", done[OrderPaid], handlers.WithMiddleware(bank, handlers.Concurrency(4)))
	e := message("OrderPaid", `{"Cents": -1}`)
	fmt.Println(reg.Seal()[e.Type].Handle(context.Background(), &handlers.Call{Events: []*handlers.Message{e}}))
	// Output: event e-1 is not valid: a negative amount
}

// One's own middleware is a function around the next handler. This one has every
// handler see the rows of its event's tenant alone.
func ExampleMiddleware() {
	type owned interface{ Tenant() string }
	tenants := func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, call *handlers.Call) error {
			data, err := handlers.DataOf[owned](call)
			if errors.Is(err, handlers.ErrOtherType) || call.Tx == nil {
				return next(ctx, call) // no tenant, or a handler that only queues
			} else if err != nil {
				return err // cannot be decoded: permanent
			}
			const set = `select set_config('shop.tenant', $1, true)`
			if _, err := call.Tx.Exec(ctx, set, data[0].Tenant()); err != nil {
				return err
			}
			return next(ctx, call)
		}
	}
	reg := handlers.New()
	reg.Use(tenants)
	handlers.On(reg, "OrderPaid", done[OrderPaid])
	e := message("OrderPaid", `{}`)
	fmt.Println(reg.Seal()[e.Type].Handle(context.Background(), &handlers.Call{Events: []*handlers.Message{e}}))
	// Output: <nil>
}

// Metrics are a function that is told of each call; any library will do.
func ExampleMetrics() {
	reg := handlers.New()
	reg.Use(handlers.Metrics(func(_ context.Context, o handlers.Observation) {
		fmt.Println(o.Type, o.Events, o.Outcome)
	}))
	handlers.On(reg, "OrderPaid", func(context.Context, pgx.Tx, handlers.Event[OrderPaid]) error {
		return handlers.Pause(errors.New("the bank is closed"))
	})
	e := message("OrderPaid", `{}`)
	_ = reg.Seal()[e.Type].Handle(context.Background(), &handlers.Call{Events: []*handlers.Message{e}})
	// Output: OrderPaid 1 paused
}

// Tracing is a function that begins a span. With OpenTelemetry it is
//
//	ctx = otel.GetTextMapPropagator().Extract(ctx, propagation.MapCarrier{
//		"traceparent": e.TraceParent(), "tracestate": e.TraceState()})
//	ctx, span := tracer.Start(ctx, call.Type())
func ExampleTracing() {
	reg := handlers.New()
	reg.Use(handlers.Tracing(func(ctx context.Context, call *handlers.Call) (context.Context, func(error)) {
		e := call.Events[0]
		fmt.Println("begin", call.Type(), "of", e.TraceParent())
		return ctx, func(err error) { fmt.Println("end", err) }
	}))
	handlers.On(reg, "OrderPaid", done[OrderPaid])
	e := message("OrderPaid", `{}`)
	e.Headers = headers("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	_ = reg.Seal()[e.Type].Handle(context.Background(), &handlers.Call{Events: []*handlers.Message{e}})
	// Output:
	// begin OrderPaid of 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
	// end <nil>
}

// protoPaid stands for a generated type of Protocol Buffers, of which the
// codec uses no more than one function. With google.golang.org/protobuf that is
//
//	proto.Unmarshal(m.Payload, into.(proto.Message))
type protoPaid struct{ Cents int64 }

func (p *protoPaid) Unmarshal(b []byte) error {
	if len(b) != 2 || b[0] != 1<<3 {
		return errors.New("cannot parse invalid wire-format data")
	}
	p.Cents = int64(b[1])
	return nil
}

type protoCodec struct{}

func (protoCodec) Decode(m *handlers.Message, into any) error {
	return into.(interface{ Unmarshal([]byte) error }).Unmarshal(m.Payload)
}

// The codec of a registry, and of one type. Generated types of Protocol Buffers
// are taken as pointers, for they must not be copied.
func ExampleWithCodec() {
	reg := handlers.New(handlers.WithCodec(protoCodec{}))
	handlers.On(reg, "OrderPaid", func(_ context.Context, _ pgx.Tx, e handlers.Event[*protoPaid]) error {
		fmt.Println("paid", e.Data.Cents)
		return nil
	})
	handlers.On(reg, "OrderRefunded", done[OrderPaid], handlers.WithCodec(handlers.JSON{RefuseUnknown: true}))
	for _, e := range []*handlers.Message{message("OrderPaid", "\x08\x07"), message("OrderRefunded", `{"Centz": 7}`)} {
		err := reg.Seal()[e.Type].Handle(context.Background(), &handlers.Call{Events: []*handlers.Message{e}})
		fmt.Println(err)
	}
	// Output:
	// paid 7
	// <nil>
	// decode payload of OrderRefunded into handlers_test.OrderPaid: json: unknown field "Centz"
}

func ExampleLogger() {
	reg := handlers.New()
	handlers.On(reg, "OrderPaid", func(ctx context.Context, _ pgx.Tx, e handlers.Event[OrderPaid]) error {
		log := handlers.Logger(ctx) // carries the event's id, aggregate, type, position and attempt
		log.Info("booked", "cents", e.Data.Cents)
		return nil
	})
	fmt.Println(reg.Types())
	// Output: [OrderPaid]
}
