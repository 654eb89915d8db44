package webhook_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/handlers/webhook"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	past := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	for _, tc := range []struct {
		status     int
		retryAfter string
		want       handlers.Outcome
		after      time.Duration
		down       bool
	}{
		{200, "", handlers.Done, 0, false}, {202, "5", handlers.Done, 0, false}, {204, "", handlers.Done, 0, false}, {299, "", handlers.Done, 0, false},
		{300, "", handlers.Failed, 0, false}, {304, "", handlers.Failed, 0, false}, {307, "7", handlers.Failed, 0, false},
		{400, "", handlers.Stuck, 0, false}, {410, "", handlers.Stuck, 0, false}, {413, "", handlers.Stuck, 0, false}, {422, "9", handlers.Stuck, 0, false},
		{401, "", handlers.Failed, 0, false}, {403, "", handlers.Failed, 0, false}, {404, "", handlers.Failed, 0, false}, {409, "", handlers.Failed, 0, false},
		{408, "1", handlers.Retried, time.Second, false}, {425, "1", handlers.Retried, time.Second, false},
		{429, "", handlers.Failed, 0, false}, {429, "17", handlers.Retried, 17 * time.Second, false}, {429, "0", handlers.Failed, 0, false},
		{429, "-3", handlers.Failed, 0, false}, {429, "soon", handlers.Failed, 0, false}, {429, past, handlers.Failed, 0, false},
		{429, "99999999999999999999", handlers.Failed, 0, false}, {429, "9999999999999", handlers.Retried, time.Hour, false},
		{500, "", handlers.Failed, 0, false}, {501, "", handlers.Failed, 0, false}, {599, "", handlers.Failed, 0, false},
		{502, "", handlers.Failed, 0, true}, {503, "", handlers.Failed, 0, true}, {503, "2", handlers.Retried, 2 * time.Second, true}, {504, "", handlers.Failed, 0, true},
	} {
		t.Run(fmt.Sprint(tc.status, " ", tc.retryAfter), func(t *testing.T) {
			t.Parallel()
			e := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				if tc.retryAfter != "" {
					w.Header().Set("Retry-After", tc.retryAfter)
				}
				w.WriteHeader(tc.status)
			})
			err := send(t, webhook.Config{URL: e.URL}, message("1"))
			var status *webhook.StatusError
			var retry *handlers.RetryAfterError
			if got := handlers.OutcomeOf(err); got != tc.want || errors.As(err, &status) != (tc.want != handlers.Done) {
				t.Fatalf("%s: %v", got, err)
			}
			if errors.As(err, &retry) && retry.After != tc.after {
				t.Errorf("after %s", retry.After)
			}
			if status != nil && (status.Code != tc.status || status.DependencyDown() != tc.down) {
				t.Errorf("%d, down %v", status.Code, status.DependencyDown())
			}
		})
	}
}

// A Retry-After may be a time.
func TestRetryAfterTime(t *testing.T) {
	t.Parallel()
	e := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	})
	var retry *handlers.RetryAfterError
	if err := send(t, webhook.Config{URL: e.URL}, message("1")); !errors.As(err, &retry) || retry.After < 5*time.Minute || retry.After > 10*time.Minute {
		t.Errorf("%v, after %v", err, retry)
	}
}

// What an endpoint says goes into the error, bounded, on one line, without what it
// echoes of the secrets, and without the URL's parameters.
func TestErrorText(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"":                                  "answered 500 Internal Server Error",
		"no\nsuch \x00 \"order\"":           `answered 500 Internal Server Error: "no\nsuch \x00 \"order\""`,
		"\xff":                              `answered 500 Internal Server Error: "` + "\uFFFD" + `"`,
		"Bearer s3cret":                     `answered 500 Internal Server Error: "Bearer xxxxx"`,
		strings.Repeat("x", 298) + "s3cret": `"` + strings.Repeat("x", 300) + `"`,
		strings.Repeat("y", 100_000):        `"` + strings.Repeat("y", 300) + `"`,
	} {
		e := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, said)
		})
		err := send(t, webhook.Config{URL: e.URL + "/hooks/é?key=s3cret", Token: webhook.SecretValue("s3cret")}, message("1"))
		if err == nil || !strings.HasPrefix(err.Error(), "webhook "+e.URL+"/hooks/%C3%A9 answered") || !strings.HasSuffix(err.Error(), want) ||
			strings.ContainsAny(err.Error(), "\n\x00") || strings.Contains(err.Error(), "s3") {
			t.Errorf("%.20q: %v", said, err)
		}
	}
}

// Redirects are not followed, whatever their kind.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := answering(t, nil)
	for _, status := range []int{301, 302, 303, 307, 308} {
		e := answering(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/there?token=s3cret", status)
		})
		err := send(t, webhook.Config{URL: e.URL}, message("1"))
		want := fmt.Sprintf(`answered %d %s, a redirect to "%s/there?token=xxxxx"; it was not followed: set the URL that it leads to`, status, http.StatusText(status), other.URL)
		if handlers.OutcomeOf(err) != handlers.Failed || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
	if n := len(other.requests()); n > 0 {
		t.Errorf("%d requests followed", n)
	}
}

// An endpoint that no connection can be made to is down: its event type pauses.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, closed.Close())
	untrusted := httptest.NewTLSServer(nil)
	t.Cleanup(untrusted.Close)
	for url, want := range map[string]string{
		"http://" + closed.Addr().String() + "/p?key=s3cret": "connection refused",
		"http://nowhere.invalid/":                            "cannot be reached: ",
		untrusted.URL:                                        "certificate",
	} {
		err := send(t, webhook.Config{URL: url}, message("1"))
		var none *webhook.NoAnswerError
		if handlers.OutcomeOf(err) != handlers.Paused || !errors.As(err, &none) || none.Sent || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A request that got no answer in time, or whose connection broke off, may have
// been seen: a failed attempt, that tells of a dependency that is down.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	for want, answer := range map[string]http.HandlerFunc{
		"did not answer within 2s": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"gave no answer: EOF":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		e := answering(t, answer)
		cfg := webhook.Config{URL: e.URL + "?key=s3cret", Timeout: time.Minute}
		if strings.Contains(want, "2s") {
			cfg.Timeout = 2 * time.Second
		}
		err := send(t, cfg, message("1"))
		var none *webhook.NoAnswerError
		if handlers.OutcomeOf(err) != handlers.Failed || !errors.As(err, &none) || !none.Sent || !none.DependencyDown() || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
	}
}

// The end of the lane's own context is a stop, and no word about the endpoint.
func TestStop(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	e := answering(t, func(_ http.ResponseWriter, r *http.Request) { close(arrived); <-r.Context().Done() })
	ctx, cancel := context.WithCancel(within(t))
	go func() { <-arrived; cancel() }()
	err := entry(t, webhook.Config{URL: e.URL, Timeout: time.Minute}).Handle(ctx, &handlers.Call{Events: []*handlers.Message{message("1")}})
	var none *webhook.NoAnswerError
	if !errors.Is(err, context.Canceled) || errors.As(err, &none) {
		t.Errorf("%v", err)
	}
}

// An answer whose body never ends is an answer.
func TestAnswerWithoutEnd(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 500} {
		e := answering(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, "and ")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		began := time.Now()
		err := send(t, webhook.Config{URL: e.URL, Timeout: time.Minute}, message("1"))
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %s", took)
		}
		var answered *webhook.StatusError
		if status == 200 && err != nil || status == 500 && (!errors.As(err, &answered) || answered.Body != "and") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// Connections serve again, after failures too.
func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	opened := 0
	e := &endpoint{}
	e.Server = httptest.NewUnstartedServer(e.handler(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, strings.Repeat("x", 10_000))
	}))
	e.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if s == http.StateNew {
			opened++
		}
	}
	e.Start()
	t.Cleanup(e.Close)
	handler := entry(t, webhook.Config{URL: e.URL})
	for range 20 {
		if handler.Handle(t.Context(), &handlers.Call{Events: []*handlers.Message{message("1")}}) == nil {
			t.Fatal("no error")
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if opened > 2 {
		t.Errorf("%d connections for 20 requests", opened)
	}
}

// An endpoint with a certificate of an authority of its own.
func TestOwnAuthority(t *testing.T) {
	t.Parallel()
	e := &endpoint{}
	e.Server = httptest.NewUnstartedServer(e.handler(nil))
	e.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	e.StartTLS()
	t.Cleanup(e.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}), 0o600))
	must(t, send(t, webhook.Config{URL: e.URL, CAFile: ca}, message("1")))
	if len(e.requests()) != 1 {
		t.Error("nothing arrived")
	}
}
