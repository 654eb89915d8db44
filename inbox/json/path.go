package jsonformat

import (
	"strings"

	"github.com/inboxd/inboxd/internal/rawjson"
)

// paths is the tree of all paths of a decoder. One walk over a valid JSON value
// finds what is at every one of them, and passes over the rest unread.
type paths struct {
	root node
	n    int
}

// node is a place in a value that some path leads to or through.
type node struct {
	step     step
	ids      []int // paths that end here
	children []*node
}

// add adds a path and returns its number among the values that walk fills.
func (p *paths) add(steps []step) int {
	at := &p.root
	for _, s := range steps {
		at = at.child(s)
	}
	at.ids = append(at.ids, p.n)
	p.n++
	return p.n - 1
}

func (n *node) child(s step) *node {
	for _, c := range n.children {
		if c.step == s {
			return c
		}
	}
	c := &node{step: s}
	n.children = append(n.children, c)
	return c
}

// forget takes back what was found at and below n: a key that comes again
// replaces the whole of what was there before.
func (n *node) forget(values []rawjson.Value) {
	for _, id := range n.ids {
		values[id] = nil
	}
	for _, c := range n.children {
		c.forget(values)
	}
}

// walk returns what is at each path of a value that is valid JSON.
func (p *paths) walk(text []byte) []rawjson.Value {
	values := make([]rawjson.Value, p.n)
	if p.n > 0 {
		w := walker{rawjson.Scanner{Text: text}, values}
		w.Space()
		w.visit(&p.root)
	}
	return values
}

// walker goes once through a value and keeps what is at a path.
type walker struct {
	rawjson.Scanner
	values []rawjson.Value
}

// visit reads the value at n's place, which the walker is at, and goes past it.
func (w *walker) visit(n *node) {
	start := w.At
	switch {
	case len(n.children) == 0:
		w.Value()
	case w.Text[w.At] == '{':
		w.object(n)
	case w.Text[w.At] == '[':
		w.list(n)
	default:
		w.inside(n, w.Value())
	}
	for _, id := range n.ids {
		w.values[id] = rawjson.Value(w.Text[start:w.At])
	}
}

// inside goes on at n's place in a string that holds a JSON object or list.
func (w *walker) inside(n *node, v rawjson.Value) {
	if v.Kind() != rawjson.String {
		return
	}
	text, _ := v.Text()
	trimmed := strings.TrimLeft(text, " \t\r\n")
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' {
		return
	}
	if inner, ok := rawjson.Valid([]byte(trimmed)); ok {
		w := walker{rawjson.Scanner{Text: inner}, w.values}
		w.visit(n)
	}
}

func (w *walker) object(n *node) {
	w.At++
	for w.Space(); w.Text[w.At] != '}'; w.Space() {
		name := w.Value()
		w.Colon()
		if child := n.named(name); child != nil {
			child.forget(w.values)
			w.visit(child)
		} else {
			w.Value()
		}
		w.Comma()
	}
	w.At++
}

// named returns the child with the name, which is still quoted.
func (n *node) named(name rawjson.Value) *node {
	for _, c := range n.children {
		if c.step.index < 0 && name.IsText(c.step.key) {
			return c
		}
	}
	return nil
}

func (w *walker) list(n *node) {
	w.At++
	for i := 0; ; i++ {
		w.Space()
		if w.Text[w.At] == ']' {
			break
		}
		if child := n.indexed(i); child != nil {
			w.visit(child)
		} else {
			w.Value()
		}
		w.Comma()
	}
	w.At++
}

func (n *node) indexed(i int) *node {
	for _, c := range n.children {
		if c.step.index == i {
			return c
		}
	}
	return nil
}
