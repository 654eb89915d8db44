package dev

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestDefaultDir(t *testing.T) {
	t.Parallel()
	home := "/home/ann/.local/state/inboxd/dev"
	if os.Geteuid() == 0 {
		home = "/var/lib/inboxd/dev" // which the server's account can reach
	}
	for variables, want := range map[string]string{
		"HOME=/home/ann": home,
		"HOME=/home/ann XDG_STATE_HOME=/var/state":                      "/var/state/inboxd/dev",
		"HOME=/home/ann XDG_STATE_HOME=relative":                        home,
		"HOME=/home/ann XDG_STATE_HOME=/var/state INBOXD_DEV_DIR=/data": "/data",
	} {
		got, err := DefaultDir(func(name string) string {
			for word := range strings.FieldsSeq(variables) {
				if n, v, _ := strings.Cut(word, "="); n == name {
					return v
				}
			}
			return ""
		})
		if err != nil || got != want {
			t.Errorf("%s: %s, want %s (%v)", variables, got, want, err)
		}
	}
}

func TestStateIsKept(t *testing.T) {
	t.Parallel()
	d := At(t.TempDir())
	if _, err := d.load(); !errors.Is(err, ErrNone) {
		t.Errorf("an empty directory: %v", err)
	}
	want := state{Database: Shop, PostgresPort: 15001, Broker: "127.0.0.1:2"}
	for range 2 {
		if err := d.save(want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := d.load(); err != nil || got != want {
		t.Errorf("got %+v, want %+v (%v)", got, want, err)
	}
	if entries, err := os.ReadDir(d.Path()); err != nil || len(entries) != 1 {
		t.Errorf("drafts are left: %v (%v)", entries, err)
	}
}
