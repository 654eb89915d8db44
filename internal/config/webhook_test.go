package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/internal/config"
)

func TestWebhookDefaults(t *testing.T) {
	t.Parallel()
	for limits, want := range map[string]config.Webhook{
		"":                                    {URL: "https://h/p", Timeout: 5 * time.Second, Concurrency: 8},
		"{workers: 1, handler_timeout: 2s}":   {URL: "https://h/p", Timeout: 2 * time.Second, Concurrency: 1},
		"{workers: 40, handler_timeout: 60s}": {URL: "https://h/p", Timeout: 5 * time.Second, Concurrency: 20},
	} {
		c := mustLoad(t, "handlers: {A: {webhook: {url: \"https://h/p\"}}}\nlanes: "+limits)
		equal(t, *c.Handlers["A"].Webhook, want)
	}
}

const webhooks = `
handlers:
  A:
    webhook:
      url: https://h/p?token=s3cret&v=2
      timeout: 1s
      concurrency: 3
      headers: {X-Tenant: "7", Accept: text/plain}
      token_file: /run/token
      token_header: X-Key
      secret_env: HOOK_KEY
      ca_file: ca.pem
    retry: {attempts: 3}
  B:
    webhook: {url: http://h, token_env: T, secret_file: s}
`

func TestWebhookPrints(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, webhooks)
	equal(t, c.Handlers["A"].Webhook.URL, "https://h/p?token=s3cret&v=2")
	again := mustLoad(t, c.String())
	equal(t, again, c.Redacted())
	equal(t, again.Handlers["A"].Webhook.URL, "https://h/p?token=xxxxx&v=2")
	equal(t, again.String(), c.String())
	if shown := fmt.Sprint(c, c.Handlers["A"], c.Handlers["A"].Webhook); strings.Contains(shown, "s3cret") {
		t.Error(shown)
	}
}
