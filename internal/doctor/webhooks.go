package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/inboxd/inboxd/internal/config"
)

// hooks are the webhooks of the configuration by event type.
func (e *examiner) hooks() map[string]*config.Webhook {
	hooks := map[string]*config.Webhook{}
	for eventType, h := range e.Config.Handlers {
		if h.Webhook != nil {
			hooks[eventType] = h.Webhook
		}
	}
	return hooks
}

// webhooks looks whether the endpoints of the configuration have addresses and
// their files can be read. It sends nothing and connects to none.
func (e *examiner) webhooks(ctx context.Context) (finding, error) {
	var wrong []string
	hooks, hosts := e.hooks(), map[string]bool{}
	for _, eventType := range slices.Sorted(maps.Keys(hooks)) {
		wrong = append(wrong, unreadable(eventType, hooks[eventType])...)
		u, err := url.Parse(hooks[eventType].URL)
		if err != nil || hosts[u.Hostname()] {
			continue
		}
		hosts[u.Hostname()] = true
		if _, err := net.DefaultResolver.LookupHost(ctx, u.Hostname()); err != nil {
			wrong = append(wrong, fmt.Sprintf("%s of %s has no address: %s", u.Hostname(), eventType, lookupReason(err)))
		}
	}
	if len(wrong) > 0 {
		return fail("inboxd config print", "%s", strings.Join(wrong, "; ")), nil
	}
	return fine("%s to %s; nothing was sent", count(len(hooks), "webhook"), count(len(hosts), "host")), nil
}

// lookupReason is why a host has no address, without the name again.
func lookupReason(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.Err
	}
	return err.Error()
}

// unreadable names the files of a webhook that cannot be read.
func unreadable(eventType string, w *config.Webhook) (wrong []string) {
	for _, f := range []struct{ key, path string }{
		{"token_file", w.TokenFile}, {"secret_file", w.SecretFile}, {"ca_file", w.CAFile},
	} {
		if f.path == "" {
			continue
		}
		opened, err := os.Open(f.path)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("the %s of %s cannot be read: %s", f.key, eventType, err))
			continue
		}
		_ = opened.Close()
	}
	return wrong
}
