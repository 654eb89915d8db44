package config

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

const redacted = "xxxxx"

// secretWord is a password (or sslpassword) among the keywords of a connection
// string: bare, or in single quotes, a backslash escaping what follows it. A
// quote that is not closed hides all the rest.
var secretWord = regexp.MustCompile(
	`(?is)(password[\s\v]*=[\s\v]*)('(?:[^'\\]|\\.)*(?:'|\\?$)|(?:\\.|[^\s\v\\])+\\?)`)

// RedactURL hides the passwords of a connection string, in the form of a URL
// or of keywords and values. When it cannot tell where a password ends, it
// hides more.
func RedactURL(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || strings.ContainsAny(scheme, " =") {
		return secretWord.ReplaceAllString(s, "${1}"+redacted)
	}
	// Up to the first slash, as libpq has it: a password may hold "?" and "#".
	authority, tail := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	switch {
	case strings.Contains(authority, "@"):
		authority = redactUser(authority)
	case strings.Contains(beforeQuery(tail), "@"): // a password with a slash in it
		authority, tail = redactUser(rest), ""
	default:
		authority = redactPorts(authority)
	}
	return scheme + "://" + redactQuery(authority+tail)
}

// hasPassword reports whether RedactURL would hide something.
func hasPassword(s string) bool { return RedactURL(s) != s }

func redactUser(s string) string {
	user, host, _ := cutLast(s, "@")
	name, password, _ := strings.Cut(user, ":")
	if password == "" {
		return s
	}
	return name + ":" + redacted + "@" + host
}

// redactPorts hides what stands in the place of a port and is no number: the
// password of somebody who forgot the host.
func redactPorts(authority string) string {
	list := beforeQuery(authority)
	hosts := strings.Split(list, ",")
	for i, h := range hosts {
		name, port, found := cutLast(h, ":")
		if found && !strings.HasPrefix(h, "[") && strings.Trim(port, "0123456789") != "" {
			hosts[i] = name + ":" + redacted
		}
	}
	return strings.Join(hosts, ",") + authority[len(list):]
}

func beforeQuery(s string) string {
	before, _, _ := strings.Cut(s, "?")
	return before
}

func redactQuery(s string) string {
	before := beforeQuery(s)
	if before == s {
		return s
	}
	pairs := strings.Split(s[len(before)+1:], "&")
	for i, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		if isSecretName(name) && value != "" {
			pairs[i] = name + "=" + redacted
		}
	}
	return before + "?" + strings.Join(pairs, "&")
}

func isSecretName(escaped string) bool {
	name, err := url.QueryUnescape(escaped)
	if err != nil {
		name = escaped
	}
	return strings.Contains(strings.ToLower(name), "password")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// String shows the settings without passwords.
func (d Database) String() string {
	d = d.redacted()
	return fmt.Sprintf("{url:%s url_file:%s direct_url:%s direct_url_file:%s schema:%s max_connections:%d}",
		d.URL, d.URLFile, d.DirectURL, d.DirectURLFile, d.Schema, d.MaxConnections)
}

// GoString shows the settings without passwords.
func (d Database) GoString() string { return "config.Database" + d.String() }

// String is the configuration in YAML, without passwords.
func (c *Config) String() string {
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		return "unprintable configuration: " + err.Error()
	}
	return b.String()
}
