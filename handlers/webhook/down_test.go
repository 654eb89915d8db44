package webhook_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/handlers/webhook"
	"github.com/inboxd/inboxd/ordering"
)

// A slow answer in one lane holds up no other, of its own type or another, although
// one worker takes many lanes at once.
func TestSlowEndpointHoldsUpItsLaneAlone(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 60, 5)
	s.put("Paid", 60, 5)
	release, slow := make(chan struct{}), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	var once sync.Once
	e := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Inboxd-Aggregate-Id") == "Shipped-0" {
			once.Do(func() { close(slow) })
			<-release
		}
	})
	t.Cleanup(letGo)
	cfg := config()
	cfg.Workers, cfg.UntilIdle, cfg.HandlerTimeout = 2, false, time.Minute
	reg := handlers.New()
	hook(t, webhook.Config{URL: e.URL, Timeout: time.Minute}).On(reg, "Shipped")
	must(t, handlers.SQL(reg, "Paid", `insert into effects values (@event_id)`))
	_, stop := s.start(reg, cfg)
	<-slow
	s.until(`select count(*) = 595 from inboxd.events where processed_at is not null`)
	if got := one[string](s, `select string_agg(distinct aggregate_id, ' ') from inboxd.events where processed_at is null`); got != "Shipped-0" {
		t.Errorf("these wait: %s", got)
	}
	letGo()
	s.until(`select bool_and(processed_at is not null) from inboxd.events`)
	stop()
}

// An endpoint that is down pauses its type, and no attempt is used up; others run,
// and it goes on when it is back.
func TestEndpointIsDown(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 3, 2)
	s.put("Paid", 3, 2)
	var up atomic.Bool
	e := answering(t, nil)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	hook := hook(t, webhook.Config{URL: e.URL, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if !up.Load() {
			r = r.Clone(r.Context())
			r.URL.Host = "127.0.0.1:1"
		}
		return transport.RoundTrip(r)
	})})
	cfg := config()
	cfg.UntilIdle = false
	reg := handlers.New(handlers.WithRetry(handlers.Retry{Never: true}))
	hook.On(reg, "Shipped")
	must(t, handlers.SQL(reg, "Paid", `insert into effects values (@event_id)`))
	_, stop := s.start(reg, cfg)
	s.until(`select count(*) = 6 from effects`)
	s.until(`select count(*) = 3 from inboxd.lanes where state = 'paused'`)
	up.Store(true)
	s.until(`select bool_and(processed_at is not null) from inboxd.events`)
	stop()
	if n := one[int](s, `select max(attempts) from inboxd.events`); n != 1 {
		t.Errorf("%d attempts", n)
	}
	if n := len(e.requests()); n != 6 {
		t.Errorf("%d requests arrived", n)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A gateway's answers in many lanes pause the type too.
func TestGatewayAnswersOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 6, 1)
	var up atomic.Bool
	e := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	cfg := config()
	cfg.UntilIdle, cfg.Breaker.Lanes, cfg.Retry.Initial = false, 5, time.Second
	cfg.Retry.Max = time.Second
	reg := handlers.New()
	hook(t, webhook.Config{URL: e.URL}).On(reg, "Shipped")
	_, stop := s.start(reg, cfg)
	s.until(`select count(*) > 0 from inboxd.breakers where event_type = 'Shipped'`)
	up.Store(true)
	s.until(`select bool_and(processed_at is not null) from inboxd.events`)
	stop()
}

// The endpoint says when to come back.
func TestRetryAfterIsKept(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 1, 1)
	e := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "900")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	cfg := config()
	cfg.UntilIdle = false
	reg := handlers.New()
	hook(t, webhook.Config{URL: e.URL}).On(reg, "Shipped")
	_, stop := s.start(reg, cfg)
	s.until(`select count(*) > 0 from inboxd.lanes where state = 'backoff' and next_attempt_at between now() + interval '10 min' and now() + interval '15 min'`)
	stop()
}

// A time-out is a failure: it uses up attempts, and says the time.
func TestTimeoutIsAFailure(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 1, 1)
	e := answering(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	cfg := config()
	cfg.Retry.Attempts = 2
	reg := handlers.New()
	hook(t, webhook.Config{URL: e.URL, Timeout: 2 * time.Second}).On(reg, "Shipped")
	s.run(reg, cfg)
	want := fmt.Sprintf("stuck 2 webhook %s did not answer within 2s", e.URL)
	if got := one[string](s, `select state || ' ' || attempts || ' ' || error_message from inboxd.lanes`); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A stop that cuts a request short is no failure.
func TestAbortIsNoFailure(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Shipped", 1, 1)
	arrived := make(chan struct{})
	var once sync.Once
	e := answering(t, func(_ http.ResponseWriter, r *http.Request) { once.Do(func() { close(arrived) }); <-r.Context().Done() })
	reg := handlers.New()
	hook(t, webhook.Config{URL: e.URL, Timeout: time.Minute}).On(reg, "Shipped")
	p, err := ordering.New(s.pool, reg, config())
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- p.Run(within(t)) }()
	<-arrived
	p.Abort()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("%v", err)
	}
	if n := one[int](s, `select count(*) from inboxd.failures`); n != 0 {
		t.Errorf("%d failures on record", n)
	}
}
