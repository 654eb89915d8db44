package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/handlers/webhook"
	"github.com/inboxd/inboxd/inbox"
)

// The body is the payload, byte for byte.
func TestBodyIsThePayload(t *testing.T) {
	t.Parallel()
	e := answering(t, nil)
	for payload, contentType := range map[string]string{
		`{"n": 12345678901234567890123456789012345678901234567890.10}`: "application/json",
		" [1,\n2] ":                       "application/json",
		"":                                "application/octet-stream",
		"a\x00b":                          "application/octet-stream",
		"\xff\xfe":                        "application/octet-stream",
		strings.Repeat("large ", 200_000): "application/octet-stream",
	} {
		must(t, send(t, webhook.Config{URL: e.URL + "/hooks?v=1"}, message(payload)))
		all := e.requests()
		got := all[len(all)-1]
		if string(got.body) != payload || got.method != http.MethodPost || got.path != "/hooks" || got.header.Get("Content-Type") != contentType {
			t.Errorf("%.40q: %s %s, %s, body of %d bytes", payload, got.method, got.path, got.header.Get("Content-Type"), len(got.body))
		}
		if want := fmt.Sprint(len(payload)); got.header.Get("Content-Length") != want && got.header.Get("Content-Length") != "" {
			t.Errorf("Content-Length %s", got.header.Get("Content-Length"))
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	e := answering(t, nil)
	m := message(`{}`)
	m.ID, m.AggregateID, m.Type, m.Replay = "é 1\r\nX: y", "100%", "OrderShipped", true
	m.Headers = []inbox.Header{
		{Name: "content-Type", Value: []byte("application/cloudevents+json; charset=utf-8")},
		{Name: "traceparent", Value: []byte(parent)}, {Name: "tracestate", Value: []byte("a=1")}, {Name: "tracestate", Value: []byte("b=2")},
		{Name: "x-secret-of-the-producer", Value: []byte("1")},
	}
	must(t, send(t, webhook.Config{URL: e.URL, Headers: map[string]string{"x-shop": "seven", "Accept": "text/plain"}}, m))
	got := e.requests()[0].header
	for name, want := range map[string]string{
		"Idempotency-Key": m.IdempotencyKey(), "Inboxd-Event-Id": "%C3%A9%201%0D%0AX:%20y", "Inboxd-Aggregate-Id": "100%25",
		"Inboxd-Event-Type": "OrderShipped", "Inboxd-Position": "3", "Inboxd-Attempt": "2", "Inboxd-Replay": "true",
		"Inboxd-Occurred-At": "2026-01-02T02:04:05.000006Z", "Inboxd-Received-At": "2026-01-02T03:04:06Z",
		"Content-Type": "application/cloudevents+json; charset=utf-8", "Traceparent": parent, "Tracestate": "a=1,b=2",
		"X-Shop": "seven", "Accept": "text/plain", "X": "", "X-Secret-Of-The-Producer": "", "Authorization": "", "Webhook-Id": "",
	} {
		if got.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Get(name), want)
		}
	}
	if id, err := url.PathUnescape(got.Get("Inboxd-Event-Id")); id != m.ID || err != nil {
		t.Errorf("the id does not come back: %q, %v", id, err)
	}
	if agent := got.Get("User-Agent"); !strings.HasPrefix(agent, "inboxd/") {
		t.Errorf("User-Agent %q", agent)
	}
}

// Headers of an event that HTTP cannot carry do not keep it from being sent.
func TestHeadersThatCannotBeSent(t *testing.T) {
	t.Parallel()
	e := answering(t, nil)
	m := message(`{}`)
	m.Headers = []inbox.Header{
		{Name: "content-type", Value: []byte("a/b\r\nX: y")},
		{Name: "traceparent", Value: []byte("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-\x00")},
	}
	must(t, send(t, webhook.Config{URL: e.URL}, m))
	if got := e.requests()[0].header; got.Get("Content-Type") != "application/json" || got.Get("Traceparent") != "" {
		t.Errorf("%v", got)
	}
}

// Token and keys are read for each request, and sign as Standard Webhooks has it.
func TestSecretsRotate(t *testing.T) {
	t.Parallel()
	e := answering(t, nil)
	dir := t.TempDir()
	token, key := filepath.Join(dir, "token"), filepath.Join(dir, "key")
	write := func(path, text string) { must(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(token, " first\n")
	write(key, "whsec_"+base64.StdEncoding.EncodeToString([]byte("old")))
	handler := entry(t, webhook.Config{URL: e.URL, Token: webhook.SecretFile(token), Signature: webhook.SecretFile(key)})
	m := message(`{"a":1}`)
	m.ID = "e.1"
	call := func() { must(t, handler.Handle(t.Context(), &handlers.Call{Events: []*handlers.Message{m}})) }
	call()
	write(token, "second")
	write(key, "plain\nwhsec_"+base64.StdEncoding.EncodeToString([]byte("old"))+"\n")
	call()
	for i, want := range []struct {
		token string
		keys  []string
	}{{"Bearer first", []string{"old"}}, {"Bearer second", []string{"plain", "old"}}} {
		got := e.requests()[i].header
		if got.Get("Authorization") != want.token {
			t.Errorf("%d: %q", i, got.Get("Authorization"))
		}
		var signatures []string
		for _, k := range want.keys {
			mac := hmac.New(sha256.New, []byte(k))
			fmt.Fprintf(mac, "%s.%s.%s", got.Get("webhook-id"), got.Get("webhook-timestamp"), m.Payload)
			signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
		if got.Get("Webhook-Signature") != strings.Join(signatures, " ") || got.Get("Webhook-Id") != "e%2E1" {
			t.Errorf("%d: id %s, signature %s, want %s", i, got.Get("Webhook-Id"), got.Get("Webhook-Signature"), signatures)
		}
	}
}

func TestTokenInAnotherHeader(t *testing.T) {
	t.Parallel()
	e := answering(t, nil)
	must(t, send(t, webhook.Config{URL: e.URL, Token: webhook.SecretValue("s3cret"), TokenHeader: "X-Api-Key"}, message("1")))
	if got := e.requests()[0].header; got.Get("X-Api-Key") != "s3cret" || got.Get("Authorization") != "" {
		t.Errorf("%v", got)
	}
}

// Secrets that cannot be used pause the type, are told of by Check, and do not show.
func TestSecretsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	e := answering(t, nil)
	for want, cfg := range map[string]webhook.Config{
		"the token: the file /no/such cannot be read: no such file or directory": {Token: webhook.SecretFile("/no/such")},
		"the token: it is empty":                            {Token: webhook.SecretValue(" \n")},
		"the token: it holds something that HTTP cannot":    {Token: webhook.SecretValue("s3cret\x00")},
		"the signing key: what follows whsec_ is no base64": {Signature: webhook.SecretValue("whsec_s3cret!")},
		"the signing key: the file /no/such cannot be read": {Signature: webhook.SecretFile("/no/such")},
		"no such file or directory":                         {CAFile: "/no/such"},
		"holds no certificate in PEM":                       {CAFile: os.Args[0]},
	} {
		cfg.URL = e.URL
		sent := send(t, cfg, message("1"))
		for _, err := range []error{sent, hook(t, cfg).Check()} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if got := handlers.OutcomeOf(sent); got != handlers.Paused {
			t.Errorf("%s: %v", got, sent)
		}
	}
	if n := len(e.requests()); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
	must(t, hook(t, webhook.Config{URL: e.URL, Token: webhook.SecretValue("a"), Signature: webhook.SecretValue("b")}).Check())
}

// A dry run's request is the one that is sent, with secrets hidden.
func TestRehearsalSendsNothing(t *testing.T) {
	t.Parallel()
	e := answering(t, nil)
	cfg := webhook.Config{
		URL: e.URL + "/p?key=s3cret&v=1", Token: webhook.SecretValue("s3cret"), Signature: webhook.SecretValue("s3cret"), Concurrency: 1,
	}
	handler := entry(t, cfg)
	rehearse := func() *handlers.Request {
		got, err := handler.Rehearse(t.Context(), &handlers.Call{Events: []*handlers.Message{message(`{"a":1}`)}})
		must(t, err)
		return got
	}
	got := rehearse()
	if n := len(e.requests()); n > 0 {
		t.Fatalf("%d requests were sent", n)
	}
	if strings.Contains(fmt.Sprintf("%+v %s", *got, got.Body), "s3cret") {
		t.Errorf("a secret shows: %+v", *got)
	}
	if got.Method != http.MethodPost || got.URL != e.URL+"/p?key=xxxxx&v=1" || string(got.Body) != `{"a":1}` {
		t.Errorf("%+v", *got)
	}
	must(t, send(t, cfg, message(`{"a":1}`)))
	sent := e.requests()[0].header
	for _, h := range got.Headers {
		hidden := slices.Contains([]string{"Authorization", "Webhook-Signature", "Webhook-Timestamp"}, h.Name)
		if !hidden && sent.Get(h.Name) != h.Value {
			t.Errorf("%s is %q, but %q was sent", h.Name, h.Value, sent.Get(h.Name))
		}
	}
	for name := range sent {
		if !slices.Contains([]string{"Accept-Encoding", "Content-Length"}, name) && !slices.ContainsFunc(got.Headers, func(h handlers.RequestHeader) bool { return h.Name == name }) {
			t.Errorf("%s was sent and does not show", name)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	good := "https://h/p"
	for want, cfg := range map[string]webhook.Config{
		`the URL "" is no http or https URL`:                              {},
		`the URL "ftp://h/p" is no http or https URL`:                     {URL: "ftp://h/p"},
		`the URL "https://u:xxxxx@h/p" has a user in it`:                  {URL: "https://u:s3cret@h/p"},
		"Timeout is -1s, but must not be negative":                        {URL: good, Timeout: -1e9},
		"Concurrency is -1, but must not be negative":                     {URL: good, Concurrency: -1},
		"TokenHeader is set, but there is no Token":                       {URL: good, TokenHeader: "X"},
		`TokenHeader: "a b" is no name of a header`:                       {URL: good, TokenHeader: "a b", Token: webhook.SecretValue("x")},
		"TokenHeader: the header Idempotency-Key is set by inboxd":        {URL: good, TokenHeader: "idempotency-key", Token: webhook.SecretValue("x")},
		"Headers: the header Inboxd-Anything is set by inboxd":            {URL: good, Headers: map[string]string{"inboxd-anything": "1"}},
		"Headers: the header Host is set by inboxd":                       {URL: good, Headers: map[string]string{"Host": "1"}},
		"Headers: the header X-Api-Key looks like a secret":               {URL: good, Headers: map[string]string{"X-Api-Key": "s3cret"}},
		"Headers: the value of header X-A holds something that HTTP cann": {URL: good, Headers: map[string]string{"X-A": "s3cret\n"}},
	} {
		if _, err := webhook.New(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
