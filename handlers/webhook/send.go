package webhook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/secret"
)

const (
	// excerpt is how much of an answer goes into an error.
	excerpt = 300
	// drained is how much of an answer is read, and drainTime for how long, to
	// have the connection serve again.
	drained   = 64 << 10
	drainTime = 250 * time.Millisecond
)

// errTime ends a request whose time is up.
var errTime = errors.New("the request's time is up")

// send makes one attempt.
func (h *Hook) send(ctx context.Context, m *handlers.Message, body []byte) error {
	transport, err := h.roundTripper()
	if err != nil {
		return handlers.Pause(err) // no event can be sent, and it is the fault of none
	}
	s, err := h.secrets()
	if err != nil {
		return handlers.Pause(err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, h.cfg.Timeout, errTime)
	defer cancel()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	req, err := h.prepare(traced, m, body, s)
	if err != nil {
		return err
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(req)
	if err != nil {
		return h.noAnswer(ctx, limited, err, connected.Load())
	}
	// Whatever is in the body, the answer is given: from here on it only costs time.
	stop := time.AfterFunc(drainTime, cancel)
	defer stop.Stop()
	defer answer.Body.Close()
	if answer.StatusCode >= 200 && answer.StatusCode < 300 {
		_, _ = io.CopyN(io.Discard, answer.Body, drained)
		return nil
	}
	return h.refused(answer, s)
}

// refused reads what an answer says that is no 2xx.
func (h *Hook) refused(answer *http.Response, s secrets) error {
	// What is shown ends where the secrets have been taken out, so that none is
	// cut in half by the limit.
	said, _ := io.ReadAll(io.LimitReader(answer.Body, drained))
	said = s.censor(said)
	said = said[:min(len(said), excerpt)]
	err := &StatusError{URL: h.shown, Code: answer.StatusCode, Body: strings.TrimSpace(strings.ToValidUTF8(string(said), "\uFFFD"))}
	if answer.StatusCode >= 300 && answer.StatusCode < 400 {
		if err.Location = answer.Header.Get("Location"); err.Location != "" {
			err.Location = secret.URL(err.Location)
		}
	}
	return outcome(err, answer.Header)
}

// noAnswer says why there was no answer. The end of the lane's own context is a
// stop, or the handler's time-out, and no failure of the endpoint.
func (h *Hook) noAnswer(ctx, limited context.Context, err error, sent bool) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var inURL *url.Error // its text has the whole URL
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	failure := &NoAnswerError{URL: h.shown, Sent: sent, Err: err}
	if errors.Is(context.Cause(limited), errTime) {
		failure.Timeout = h.cfg.Timeout
	}
	if !sent {
		return handlers.Pause(failure)
	}
	return failure
}
