package config

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/inboxd/inboxd/internal/secret"
)

// Webhook is an HTTP endpoint that takes events. Its files and variables are read
// when a request is made, not by Load.
type Webhook struct {
	// URL is http or https, without a user.
	URL string
	// Timeout of one request, at most lanes.handler_timeout. Default: 5s, or
	// lanes.handler_timeout if that is less.
	Timeout time.Duration
	// Concurrency is how many requests of the type run at once in this process.
	// Default: half of lanes.workers.
	Concurrency int
	// Headers go along with each request; nothing secret. Default: none.
	Headers map[string]string
	// TokenFile or TokenEnv, a file or a variable of the environment, holds what
	// TokenHeader takes along: by default Authorization, as a bearer. Default: none.
	TokenFile, TokenEnv, TokenHeader string
	// SecretFile or SecretEnv holds the keys that sign requests. Default: none.
	SecretFile, SecretEnv string
	// CAFile holds the authorities that may have signed the endpoint's certificate,
	// in PEM. Default: those of the system.
	CAFile string
}

const webhookTimeout = 5 * time.Second

// texts are the keys that hold a plain text.
func (w *Webhook) texts() []textKey {
	return []textKey{
		{"url", &w.URL}, {"token_file", &w.TokenFile}, {"token_env", &w.TokenEnv}, {"token_header", &w.TokenHeader},
		{"secret_file", &w.SecretFile}, {"secret_env", &w.SecretEnv}, {"ca_file", &w.CAFile},
	}
}

type textKey struct {
	name string
	text *string
}

var webhookKeys = []string{
	"url", "timeout", "concurrency", "headers", "token_file", "token_env", "token_header", "secret_file", "secret_env", "ca_file",
}

// webhook reads a webhook; ok is false if it had a problem.
func (d *document) webhook(path string, n *yaml.Node) (_ *Webhook, ok bool) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "%s is %s, but it must be {url: URL, timeout: DURATION}", path, describe(n))
		return nil, false
	}
	w, before, known := &Webhook{}, len(d.problems), map[string]bool{}
	d.pairs(n, path+".", func(name, value *yaml.Node) {
		if !slices.Contains(webhookKeys, name.Value) {
			d.unknownIn(name, path, webhookKeys...)
			return
		}
		known[name.Value] = true
		if wanted := d.webhookKey(w, path, name.Value, resolve(value)); wanted != "" {
			d.problem(value, path+"."+name.Value, "%s.%s is %s, but it must be %s", path, name.Value, describe(resolve(value)), wanted)
		}
	})
	if !known["url"] {
		d.problem(n, path, "%s has no url, but it must be {url: URL, timeout: DURATION}", path)
	}
	return w, len(d.problems) == before
}

// webhookKey reads one key, and answers what it must be if it is not.
func (d *document) webhookKey(w *Webhook, path, name string, n *yaml.Node) (wanted string) {
	switch name {
	case "headers":
		return d.webhookHeaders(w, path+".headers", n)
	case "timeout":
		return wait(&w.Timeout, n.Value)
	case "concurrency":
		var err error
		if w.Concurrency, err = strconv.Atoi(n.Value); err != nil || w.Concurrency < 1 {
			return "a whole number, at least 1"
		}
		return ""
	}
	for _, k := range w.texts() {
		if k.name != name {
			continue
		}
		if !isPlain(n) || name != "url" && unfit(n.Value) {
			return "a text"
		}
		*k.text = n.Value
	}
	if name == "url" {
		if wrong := webhookURL(w.URL); wrong != "" {
			d.problem(n, path+".url", "%s.url is %q, but %s", path, shorten(secret.URL(w.URL)), wrong)
		}
	}
	return ""
}

// unfit reports that a text cannot be a path or a name.
func unfit(s string) bool {
	return s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl)
}

func webhookURL(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "it must be an http or https URL"
	case u.User != nil:
		return "a URL with a user in it may not stand in the file: use token_file, token_env, secret_file or secret_env"
	}
	return ""
}

func (d *document) webhookHeaders(w *Webhook, path string, n *yaml.Node) (wanted string) {
	if n.Kind != yaml.MappingNode {
		return "a mapping of names to texts"
	}
	w.Headers = map[string]string{}
	d.pairs(n, path+".", func(name, value *yaml.Node) {
		value = resolve(value)
		switch {
		case !isPlain(value):
			d.problem(value, path, "%s.%s is %s, but it must be a text", path, name.Value, describe(value))
		case secret.Named(name.Value):
			d.problem(value, path, "%s.%s looks like a secret, which may not stand in the file: use token_file or token_env, with token_header: %s",
				path, name.Value, name.Value)
		}
		w.Headers[name.Value] = value.Value
	})
	return ""
}

// complete fills in the defaults that depend on other values.
func (w *Webhook) complete(l Lanes) {
	if w == nil {
		return
	}
	if w.Timeout == 0 {
		w.Timeout = min(webhookTimeout, l.HandlerTimeout)
	}
	if w.Concurrency == 0 {
		w.Concurrency = max(1, l.Workers/2)
	}
}

// check holds the keys against each other.
func (w *Webhook) check(ps *problems, path string, l Lanes) {
	if w == nil {
		return
	}
	if w.Timeout > l.HandlerTimeout {
		ps.add("", path+".timeout", "%s.timeout is %s, but it must not be more than lanes.handler_timeout, which is %s",
			path, formatDuration(w.Timeout), formatDuration(l.HandlerTimeout))
	}
	both := func(file, env string) {
		ps.add("", path+"."+file, "%s.%s and %[1]s.%[3]s are both set, but only one of them can count", path, file, env)
	}
	if w.TokenFile != "" && w.TokenEnv != "" {
		both("token_file", "token_env")
	}
	if w.SecretFile != "" && w.SecretEnv != "" {
		both("secret_file", "secret_env")
	}
	if w.TokenHeader != "" && w.TokenFile == "" && w.TokenEnv == "" {
		ps.add("", path+".token_header", "%s.token_header is %q, but there is no token for it: set token_file or token_env", path, shorten(w.TokenHeader))
	}
}

func (w *Webhook) redacted() *Webhook {
	r := *w
	r.URL, r.Headers = secret.URL(w.URL), maps.Clone(w.Headers)
	return &r
}

func (w *Webhook) node() *yaml.Node {
	n := mapping()
	add(n, "url", valueNode(w.URL))
	add(n, "timeout", valueNode(w.Timeout))
	add(n, "concurrency", valueNode(w.Concurrency))
	if len(w.Headers) > 0 {
		headers := mapping()
		for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
			add(headers, name, valueNode(w.Headers[name]))
		}
		add(n, "headers", headers)
	}
	for _, k := range w.texts() {
		if k.name != "url" && *k.text != "" {
			add(n, k.name, valueNode(*k.text))
		}
	}
	return n
}

// String shows the settings without what looks like a secret in the URL.
func (w *Webhook) String() string {
	type plain Webhook
	return fmt.Sprintf("%+v", plain(*w.redacted()))
}
