package httpsource_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/examples/httpsource"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inboxtest"
)

func serve(t *testing.T, kit *inboxtest.Kit) *httptest.Server {
	t.Helper()
	source := httpsource.Source{Pool: kit.Pool(), Store: kit.Store(), Log: slog.New(slog.DiscardHandler)}
	server := httptest.NewServer(source.Handler())
	t.Cleanup(server.Close)
	return server
}

func post(t *testing.T, server *httptest.Server, path, id, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Event-Id", id)
	res, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

func TestSource(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, inboxtest.Options{Setup: httpsource.Tables})
	server := serve(t, kit)
	for _, step := range []struct {
		path, id, body string
		want           int
	}{
		{"/events/Deposited/alice", "a", `{"cents":1}`, http.StatusCreated},
		{"/events/Deposited/alice", "b", `{"cents":2}`, http.StatusCreated},
		{"/events/Deposited/alice", "a", `{"cents":1}`, http.StatusOK},
		{"/events/Deposited/alice", "a", `{"cents":7}`, http.StatusConflict},
		{"/events/Deposited/alice", "", `{}`, http.StatusUnprocessableEntity},
		{"/events/Deposited/alice", "c", strings.Repeat("x", 2<<20), http.StatusRequestEntityTooLarge},
		{"/events/Deposited", "d", `{}`, http.StatusNotFound},
	} {
		if got := post(t, server, step.path, step.id, step.body); got != step.want {
			t.Errorf("%s %s: %d, want %d", step.path, step.id, got, step.want)
		}
	}
	var sum int64
	reg := handlers.New()
	handlers.On(reg, "Deposited", func(_ context.Context, _ pgx.Tx, e handlers.Event[struct{ Cents int64 }]) error {
		sum += e.Data.Cents
		return nil
	})
	kit.Run(reg)
	kit.AssertProcessed("alice", "a", "b")
	if calls := inboxtest.Get[int](kit, `select count(*) from calls`); sum != 3 || calls != 4 {
		t.Errorf("%d cents in %d calls", sum, calls)
	}
}

// Without its table the service stores nothing, and says so to the sender.
func TestNothingIsAcknowledgedThatIsNotStored(t *testing.T) {
	t.Parallel()
	kit := inboxtest.New(t, inboxtest.Options{})
	server := serve(t, kit)
	if got := post(t, server, "/events/Deposited/alice", "a", `{}`); got != http.StatusServiceUnavailable {
		t.Errorf("answered %d", got)
	}
	kit.Exec(httpsource.Tables)
	if got := post(t, server, "/events/Deposited/alice", "a", `{}`); got != http.StatusCreated {
		t.Errorf("answered %d", got)
	}
}
