package webhook_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/handlers/webhook"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// endpoint is a server that takes down what it receives.
type endpoint struct {
	*httptest.Server
	mu   sync.Mutex
	seen []received
}

type received struct {
	method, path, key string
	header            http.Header
	body              []byte
}

// answering starts an endpoint; after each request is taken down, answer answers it.
// Nil: 204.
func answering(t testing.TB, answer http.HandlerFunc) *endpoint {
	t.Helper()
	e := &endpoint{}
	e.Server = httptest.NewServer(e.handler(answer))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) handler(answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		e.mu.Lock()
		e.seen = append(e.seen, received{r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), r.Header.Clone(), body})
		e.mu.Unlock()
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(w, r)
	})
}

func (e *endpoint) requests() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]received{}, e.seen...)
}

func hook(t testing.TB, cfg webhook.Config) *webhook.Hook {
	t.Helper()
	h, err := webhook.New(cfg)
	must(t, err)
	t.Cleanup(h.Close)
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func message(payload string) *handlers.Message {
	return &handlers.Message{
		Event: inbox.Event{
			ID: "e-1", AggregateID: "order-7", Type: "OrderShipped", Payload: []byte(payload), Position: 3,
			OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)),
			ReceivedAt: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
		},
		Attempt: 2,
	}
}

// entry is the hook's, registered.
func entry(t testing.TB, cfg webhook.Config) *handlers.Entry {
	t.Helper()
	reg := handlers.New()
	hook(t, cfg).On(reg, "OrderShipped")
	return reg.Seal()["OrderShipped"]
}

// send has the hook handle a message.
func send(t testing.TB, cfg webhook.Config, m *handlers.Message) error {
	t.Helper()
	return entry(t, cfg).Handle(t.Context(), &handlers.Call{Events: []*handlers.Message{m}})
}

// within is a context for what must not hang a test.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
