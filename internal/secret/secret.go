// Package secret knows what looks like a secret by its name, for whoever shows
// settings and requests to people.
package secret

import (
	"net/url"
	"strings"
)

// Hidden stands where a secret stood.
const Hidden = "xxxxx"

// words make a name that of a secret, wherever they stand in it.
var words = []string{"password", "passwd", "secret", "token", "apikey", "authoriz", "authentic", "cookie", "credential", "signature"}

// harmless are names that end in "key" and are no secret's.
var harmless = []string{"idempotencykey", "routingkey", "partitionkey", "publickey"}

// Named reports whether a header or a parameter of that name is likely to hold a
// secret.
func Named(name string) bool {
	name = strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
	for _, word := range words {
		if strings.Contains(name, word) {
			return true
		}
	}
	if name == "sig" || name == "code" || strings.HasSuffix(name, "auth") {
		return true
	}
	for _, word := range harmless {
		if strings.HasSuffix(name, word) {
			return false
		}
	}
	return strings.HasSuffix(name, "key")
}

// URL hides the password of a URL, and the values of parameters that are named
// like secrets. What is no URL is hidden wholly.
func URL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return Hidden
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), Hidden)
		}
	}
	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		if value != "" && (err != nil || Named(plain)) {
			pairs[i] = name + "=" + Hidden
		}
	}
	u.RawQuery = strings.Join(pairs, "&")
	return u.String()
}
