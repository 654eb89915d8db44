package doctor_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/doctor"
)

// Addresses and files are looked at, and nobody is connected to.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	w := admit(t)
	for _, r := range doctor.Examine(t.Context(), w.Options).Results {
		if r.Check == "webhooks" {
			t.Errorf("there are none, but: %+v", r)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	connected := make(chan bool, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_ = conn.Close()
		}
		connected <- err == nil
	}()
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte("x"), 0o600))
	hook := func(url, file string) config.Handler {
		return config.Handler{Webhook: &config.Webhook{URL: url, TokenFile: file}}
	}
	endpoint := "http://" + listener.Addr().String() + "/p"
	w.Config.Handlers = map[string]config.Handler{"A": hook(endpoint, token), "B": hook(endpoint, ""), "C": {Ignore: true}}
	w.says("webhooks", doctor.OK, "2 webhooks to 1 host; nothing was sent", "")
	if results := doctor.Examine(t.Context(), w.Options).Results; !slices.ContainsFunc(results, func(r doctor.Result) bool { return r.Check == "webhooks" }) {
		t.Errorf("webhooks were not looked at: %+v", results)
	}
	w.Config.Handlers["D"] = hook("https://nowhere.invalid/p", "/no/such")
	w.says("webhooks", doctor.Failed, "the token_file of D cannot be read: open /no/such: no such file or directory; nowhere.invalid of D has no address: ", "inboxd config print")
	must(t, listener.Close())
	if <-connected {
		t.Error("the endpoint was connected to")
	}
}
