package pgtest

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
)

// template is a database that others are copied from.
type template struct {
	once sync.Once
	name string
	err  error
}

// Prepared returns the URL of a fresh database that prepare has filled, dropped when the test ends.
// Databases of one key are alike: on an embedded server prepare runs once a process, on a template,
// and each test gets a copy, which takes some 15 ms. On the server of the environment prepare runs for
// each database, because a template would be left on a server that is not ours.
func Prepared(t T, key string, prepare func(url string) error) string {
	t.Helper()
	start(t)
	if shared.server == nil {
		address := database(t, "template0")
		if err := prepare(address); err != nil {
			t.Fatalf("prepare the database of the test: %v", err)
		}
		return address
	}
	tpl := shared.template(key)
	tpl.once.Do(func() { tpl.err = shared.fill(tpl.name, prepare) })
	if tpl.err != nil {
		t.Fatalf("prepare the database of the test: %v", tpl.err)
	}
	return database(t, tpl.name)
}

func (h *harness) template(key string) *template {
	h.templatesMu.Lock()
	defer h.templatesMu.Unlock()
	tpl := h.templates[key]
	if tpl == nil {
		tpl = &template{name: "template_" + strings.ToLower(rand.Text())}
		if h.templates == nil {
			h.templates = map[string]*template{}
		}
		h.templates[key] = tpl
	}
	return tpl
}

// fill makes a template. Nothing may be connected to it afterwards: it could not be copied.
func (h *harness) fill(name string, prepare func(url string) error) error {
	if err := h.create(name, "template0"); err != nil {
		return fmt.Errorf("create a template: %w", err)
	}
	address, err := withDatabase(h.url, name)
	if err != nil {
		return err
	}
	return prepare(address)
}
