package secret_test

import (
	"testing"

	"github.com/inboxd/inboxd/internal/secret"
)

func TestNamed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Authorization": true, "X-Api-Key": true, "api_key": true, "access_token": true, "X-Auth": true, "Cookie": true,
		"sig": true, "code": true, "client-secret": true, "Password": true,
		"X-Tenant": false, "X-Author": false, "Authority": false, "Proxy-Authenticate": true, "Idempotency-Key": false, "version": false, "design": false, "encode": false, "keyword": false, "": false,
	} {
		if got := secret.Named(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://h/p":                           "https://h/p",
		"https://h/p?a=1&token=s3cret&b":        "https://h/p?a=1&token=xxxxx&b",
		"https://h/p?to%6ben=s3cret&%zz=s3cret": "https://h/p?to%6ben=xxxxx&%zz=xxxxx",
		"https://u:s3cret@h/p":                  "https://u:xxxxx@h/p",
		"https://h:80:s3cret/p":                 "xxxxx",
		"https://h/a%2Fb?token=&x=%20#here":     "https://h/a%2Fb?token=&x=%20#here",
	} {
		if got := secret.URL(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
