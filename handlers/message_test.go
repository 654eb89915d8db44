package handlers_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
)

// headers makes headers of names and values in turn.
func headers(pairs ...string) []inbox.Header {
	var list []inbox.Header
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, inbox.Header{Name: pairs[i], Value: []byte(pairs[i+1])})
	}
	return list
}

// Keys are part of the contract: another process, or a later version of the
// program, has to give the same.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	fit := regexp.MustCompile(`^[!-~]{1,255}$`)
	long := strings.Repeat("x", 200)
	seen := map[string]string{}
	for _, tc := range []struct {
		id      string
		purpose []string
		want    string
	}{
		{"9f1c", nil, "9f1c"},
		{"9f1c", []string{"billing", "charge"}, "9f1c:billing:charge"},
		{"9f1c:billing", []string{"charge"}, "sha256-"},
		{"9f1c", []string{"billing:charge"}, "sha256-"},
		{"9f1c", []string{""}, "sha256-"},
		{"/orders 17", nil, "sha256-4b2f8ce5078700fc7e190e69cb1576d913682cc61294cb7fd5fa3a3585f1f524"},
		{"bestellung-ü", nil, "sha256-"},
		{"a\r\nX-Admin: 1", nil, "sha256-"},
		{"sha256-c5d4", nil, "sha256-"},
		{long, nil, long},
		{long, []string{"a"}, "sha256-"},
	} {
		m := &handlers.Message{Event: inbox.Event{ID: tc.id}, Attempt: 1}
		got := m.IdempotencyKey(tc.purpose...)
		m.Attempt, m.Replay, m.Position = 3, true, 9
		if again := m.IdempotencyKey(tc.purpose...); again != got {
			t.Errorf("%q: %q, then %q", tc.id, got, again)
		}
		if !fit.MatchString(got) || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%q %q has key %q, want %q", tc.id, tc.purpose, got, tc.want)
		}
		if hashed := tc.want != tc.id && len(tc.purpose) == 0 || tc.want == "sha256-"; hashed && len(got) != len("sha256-")+64 {
			t.Errorf("%q %q has key %q, which is no hash", tc.id, tc.purpose, got)
		}
		if other, taken := seen[got]; taken {
			t.Errorf("%q and %q have the same key", tc.id, other)
		}
		seen[got] = tc.id
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	m := &handlers.Message{Event: inbox.Event{Headers: headers("a", "1", "A", "2", "a", "3")}}
	if m.Header("a") != "3" || m.Header("A") != "2" || m.Header("b") != "" {
		t.Errorf("%q %q %q", m.Header("a"), m.Header("A"), m.Header("b"))
	}
}

func TestTraceContext(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, tc := range map[string]struct {
		headers       []inbox.Header
		parent, state string
	}{
		"none":         {nil, "", ""},
		"alone":        {headers("traceparent", parent), parent, ""},
		"with states":  {headers("tracestate", "a=1", "traceparent", parent, "tracestate", "b=2"), parent, "a=1,b=2"},
		"CloudEvents":  {headers("ce_traceparent", parent, "ce_tracestate", "a=1"), parent, "a=1"},
		"state alone":  {headers("tracestate", "a=1"), "", ""},
		"later":        {headers("traceparent", "cc"+parent[2:]+"-more"), "cc" + parent[2:] + "-more", ""},
		"no version":   {headers("traceparent", "ff"+parent[2:]), "", ""},
		"too long":     {headers("traceparent", parent+"-more"), "", ""},
		"short":        {headers("traceparent", parent[:54]), "", ""},
		"zero trace":   {headers("traceparent", "00-00000000000000000000000000000000-b7ad6b7169203331-01"), "", ""},
		"zero parent":  {headers("traceparent", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"), "", ""},
		"upper case":   {headers("traceparent", strings.ToUpper(parent)), "", ""},
		"wrong dashes": {headers("traceparent", strings.ReplaceAll(parent, "-", "_")), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &handlers.Message{Event: inbox.Event{Headers: tc.headers}}
			if m.TraceParent() != tc.parent || m.TraceState() != tc.state {
				t.Errorf("got %q and %q", m.TraceParent(), m.TraceState())
			}
		})
	}
}
