package jsonformat

import (
	"encoding/json"
	"strings"
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
func (n *node) forget(values []value) {
	for _, id := range n.ids {
		values[id] = nil
	}
	for _, c := range n.children {
		c.forget(values)
	}
}

// walk returns what is at each path of a value that is valid JSON.
func (p *paths) walk(text []byte) []value {
	values := make([]value, p.n)
	if p.n > 0 {
		w := walker{json: text, values: values}
		w.space()
		w.visit(&p.root)
	}
	return values
}

// walker goes once through valid JSON; it need not check what it reads.
type walker struct {
	json   []byte
	at     int
	values []value
}

// visit reads the value at w.at, which is at n's place, and goes past it.
func (w *walker) visit(n *node) {
	start := w.at
	switch {
	case len(n.children) == 0:
		w.skip()
	case w.json[w.at] == '{':
		w.object(n)
	case w.json[w.at] == '[':
		w.list(n)
	default:
		w.skip()
		w.inside(n, value(w.json[start:w.at]))
	}
	for _, id := range n.ids {
		w.values[id] = value(w.json[start:w.at])
	}
}

// inside goes on at n's place in a string that holds a JSON object or list.
func (w *walker) inside(n *node, v value) {
	if v[0] != '"' {
		return
	}
	text, problem := v.unquote()
	if trimmed := strings.TrimLeft(text, " \t\r\n"); problem != "" || trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' {
		return
	}
	if inner := []byte(text); json.Valid(inner) {
		w := walker{json: inner, values: w.values}
		w.space()
		w.visit(n)
	}
}

func (w *walker) object(n *node) {
	w.at++
	for w.space(); w.json[w.at] != '}'; w.space() {
		start := w.at
		w.skipString()
		key := value(w.json[start:w.at])
		w.space()
		w.at++ // the colon
		w.space()
		if child := n.keyed(key); child != nil {
			child.forget(w.values)
			w.visit(child)
		} else {
			w.skip()
		}
		w.comma()
	}
	w.at++
}

// keyed returns the child with the key, which is still quoted.
func (n *node) keyed(key value) *node {
	for _, c := range n.children {
		if c.step.index < 0 && key.isString(c.step.key) {
			return c
		}
	}
	return nil
}

func (w *walker) list(n *node) {
	w.at++
	for i := 0; ; i++ {
		w.space()
		if w.json[w.at] == ']' {
			break
		}
		if child := n.indexed(i); child != nil {
			w.visit(child)
		} else {
			w.skip()
		}
		w.comma()
	}
	w.at++
}

func (n *node) indexed(i int) *node {
	for _, c := range n.children {
		if c.step.index == i {
			return c
		}
	}
	return nil
}

func (w *walker) comma() {
	w.space()
	if w.json[w.at] == ',' {
		w.at++
	}
}

func (w *walker) space() {
	for w.at < len(w.json) {
		switch w.json[w.at] {
		case ' ', '\t', '\n', '\r':
			w.at++
		default:
			return
		}
	}
}

// skip goes past the value at w.at, however deep it is.
func (w *walker) skip() {
	for depth := 0; ; {
		switch w.json[w.at] {
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			depth--
			w.at++
		case '"':
			w.skipString()
		case ' ', '\t', '\n', '\r', ',', ':':
			w.at++
		default:
			w.skipWord()
		}
		if depth == 0 {
			return
		}
	}
}

func (w *walker) skipString() {
	for w.at++; w.json[w.at] != '"'; w.at++ {
		if w.json[w.at] == '\\' {
			w.at++
		}
	}
	w.at++
}

// skipWord goes past a number, true, false or null.
func (w *walker) skipWord() {
	for w.at < len(w.json) {
		switch w.json[w.at] {
		case ' ', '\t', '\n', '\r', ',', ':', '}', ']':
			return
		}
		w.at++
	}
}
