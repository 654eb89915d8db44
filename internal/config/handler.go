package config

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const handlerForms = "ignore, {sql: STATEMENT}, {sql: [STATEMENT, …]} or {webhook: {url: URL}}, with retry or without"

// readHandlers reads the mapping of event types to handlers.
func (d *document) readHandlers(n *yaml.Node) {
	n = resolve(n)
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.problem(n, handlersKey, "handlers is %s, but it must be a mapping of event types to handlers", describe(n))
		return
	}
	d.pairs(n, handlersKey+".", func(name, value *yaml.Node) {
		eventType, path := name.Value, handlersKey+"."+name.Value
		switch {
		case eventType == "":
			d.problem(name, handlersKey, "handlers holds an empty event type")
		case !utf8.ValidString(eventType) || strings.IndexByte(eventType, 0) >= 0:
			d.problem(name, handlersKey, "handlers holds the event type %q, but no event can have it", eventType)
		default:
			if h, ok := d.handler(path, resolve(value)); ok {
				d.handlers[eventType] = h
			}
		}
	})
}

// handler reads one handler; ok is false if it had a problem.
func (d *document) handler(path string, n *yaml.Node) (h Handler, ok bool) {
	if n.Kind != yaml.MappingNode {
		if n.Kind == yaml.ScalarNode && n.Value == "ignore" {
			return Handler{Ignore: true}, true
		}
		d.problem(n, path, "%s is %s, but it must be %s", path, describe(n), handlerForms)
		return h, false
	}
	ok, found := true, 0
	d.pairs(n, path+".", func(name, value *yaml.Node) {
		if name.Value != "retry" {
			found++
		}
		good := false
		switch value = resolve(value); name.Value {
		case "retry":
			h.Retry, good = d.retry(path+".retry", value)
		case "sql":
			h.SQL, good = d.statements(path+".sql", value)
		case "webhook":
			h.Webhook, good = d.webhook(path+".webhook", value)
		default:
			d.unknownIn(name, path, "sql", "webhook", "retry")
		}
		ok = ok && good
	})
	if found > 1 || found == 0 && h.Retry == nil && ok {
		d.problem(n, path, "%s has %d keys, but it must be %s", path, found, handlerForms)
		return h, false
	}
	return h, ok
}

func (d *document) unknownIn(name *yaml.Node, path string, known ...string) {
	d.problem(name, path+"."+name.Value, "there is no key %q; the nearest known key is %q",
		path+"."+shorten(name.Value), path+"."+nearest(name.Value, known...))
}

// statements reads one statement or a list of them.
func (d *document) statements(path string, n *yaml.Node) ([]string, bool) {
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	var all []string
	for _, c := range nodes {
		c = resolve(c)
		if wrong := statementProblem(c); wrong != "" {
			d.problem(c, path, "%s %s, but it must be an SQL statement or a list of them", path, wrong)
			return nil, false
		}
		all = append(all, strings.TrimSpace(c.Value))
	}
	if len(all) == 0 {
		d.problem(n, path, "%s is an empty list, but it must hold a statement; an event type that needs no work is written as ignore", path)
	}
	return all, len(all) > 0
}

func statementProblem(n *yaml.Node) string {
	switch {
	case !isPlain(n):
		return "is or holds " + strings.TrimPrefix(describe(n), "of ")
	case strings.TrimSpace(n.Value) == "":
		return "is or holds an empty text"
	case !utf8.ValidString(n.Value) || strings.IndexByte(n.Value, 0) >= 0:
		return "holds a NUL byte or is no valid UTF-8"
	}
	return ""
}
