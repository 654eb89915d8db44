package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/secret"
)

// DefaultTimeout is how long a request may take if nothing else is said.
const DefaultTimeout = 5 * time.Second

// Config says where events are sent, and how.
type Config struct {
	// URL is the endpoint: http or https, no user in it. Needed.
	URL string
	// Timeout is how long one request may take, from the connection to the
	// answer. Default 5 s.
	Timeout time.Duration
	// Concurrency is how many requests may be under way at once from this
	// process, of all event types that the Hook is registered for. An event that
	// finds no room is put off and uses up no attempt. Less than the processor's
	// workers keeps a slow endpoint from taking all of them. 0: no limit.
	Concurrency int
	// Headers go along with each request, as they are. They are shown in dry runs.
	Headers map[string]string
	// Token goes along in the header TokenHeader, which is Authorization by
	// default; there it follows the word Bearer. Nil: none.
	Token       Secret
	TokenHeader string
	// Signature holds the keys that requests are signed with, as Standard Webhooks
	// has it, one a line: "whsec_" and base64, or the bytes of the line. Several
	// sign together, so that the receiver can change over. Nil: no signature.
	Signature Secret
	// CAFile holds, in PEM, the authorities that may have signed the endpoint's
	// certificate. It is read when the first request is made. "": the system's.
	CAFile string
	// UserAgent is sent along. Default: inboxd and its version.
	UserAgent string
	// Transport makes the requests, in place of one that New makes; CAFile has no
	// use then. It must tell of its connections by httptrace, as net/http's does and
	// what wraps that: without it each failure looks like that of a connection that
	// could not be made. For tracing.
	Transport http.RoundTripper
}

// Hook is an endpoint that takes events. Make one with New. It may be registered
// for several event types, and used by many goroutines at once.
type Hook struct {
	cfg   Config
	url   string // as requests have it
	shown string // as errors name it: no parameters, which may be secrets
	room  handlers.Middleware

	mu        sync.Mutex
	transport http.RoundTripper // nil: not made yet
	own       *http.Transport   // the one that New made
}

// New checks the configuration. It connects to nothing and reads no file; Check
// does the latter.
func New(cfg Config) (*Hook, error) {
	u, err := checkURL(cfg.URL)
	if err == nil {
		err = cfg.check()
	}
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.TokenHeader == "" {
		cfg.TokenHeader = authorization
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "inboxd/" + version()
	}
	h := &Hook{cfg: cfg, url: cfg.URL, transport: cfg.Transport}
	u.RawQuery, u.Fragment = "", ""
	h.shown = u.String()
	if cfg.Concurrency > 0 {
		h.room = handlers.Concurrency(cfg.Concurrency)
	}
	return h, nil
}

func checkURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL %q is no http or https URL", secret.URL(s))
	case u.User != nil:
		return nil, fmt.Errorf("the URL %q has a user in it; use Token or Signature", secret.URL(s))
	}
	return u, nil
}

func (c Config) check() error {
	switch {
	case c.Timeout < 0:
		return fmt.Errorf("Timeout is %s, but must not be negative", c.Timeout)
	case c.Concurrency < 0:
		return fmt.Errorf("Concurrency is %d, but must not be negative", c.Concurrency)
	case c.TokenHeader != "" && c.Token == nil:
		return errors.New("TokenHeader is set, but there is no Token for it")
	case c.TokenHeader != "" && CheckHeader(c.TokenHeader, "") != nil:
		return fmt.Errorf("TokenHeader: %w", CheckHeader(c.TokenHeader, ""))
	}
	for name, value := range c.Headers {
		if err := CheckHeader(name, value); err != nil {
			return fmt.Errorf("Headers: %w", err)
		}
	}
	return nil
}

// On registers the hook as the handler of an event type. It panics where
// handlers.On does. The options come after the hook's own, which give each event
// a transaction of its own and bound its time by Config.Timeout.
func (h *Hook) On(r *handlers.Registry, eventType string, opts ...handlers.Option) {
	own := []handlers.Option{
		handlers.WithOwnTransaction(),
		handlers.WithTimeout(h.cfg.Timeout + grace),
		handlers.WithRequest(h.request),
		handlers.WithDoc("sends the event to " + h.shown),
	}
	if h.room != nil {
		own = append(own, handlers.WithMiddleware(h.room))
	}
	handlers.On(r, eventType, h.handle, append(own, opts...)...)
}

// grace is what a call may take beyond its request, so that it is the request's
// time-out that ends one.
const grace = time.Second

// handle sends one event.
func (h *Hook) handle(ctx context.Context, _ pgx.Tx, e handlers.Event[[]byte]) error {
	return h.send(ctx, &e.Message, e.Data)
}

// Check reads the files that the hook needs for a request, and says what is wrong
// with them.
func (h *Hook) Check() error {
	var errs []error
	_, err := h.roundTripper()
	errs = append(errs, err)
	_, err = h.secrets()
	errs = append(errs, err)
	return errors.Join(errs...)
}

// Close ends idle connections. Requests may still be made, but should not.
func (h *Hook) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.own != nil {
		h.own.CloseIdleConnections()
	}
}

// roundTripper makes what makes the requests, once its files can be read.
func (h *Hook) roundTripper() (http.RoundTripper, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.transport != nil {
		return h.transport, nil
	}
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.DisableCompression = true // an answer's first bytes are shown as they came
	own.MaxIdleConnsPerHost = 32
	if h.cfg.CAFile != "" {
		pem, err := os.ReadFile(h.cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the authorities for %s: %w", h.shown, err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the authorities for %s: %s holds no certificate in PEM", h.shown, h.cfg.CAFile)
		}
		own.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	h.own, h.transport = own, own
	return own, nil
}

// version is that of this module in the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	found := info.Main.Version
	for _, dep := range info.Deps {
		if dep.Path == "github.com/inboxd/inboxd" {
			found = dep.Version
		}
	}
	if found == "" || found == "(devel)" {
		return "devel"
	}
	return found
}
