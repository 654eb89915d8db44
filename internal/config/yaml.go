package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/knadh/koanf/maps"
	"go.yaml.in/yaml/v3"
)

// document is the parser of the YAML file, strict about keys and types. It
// walks the nodes, which know their lines, and descends only into known
// sections, so that anchors which hold themselves do no harm.
type document struct {
	*loader
	name   string
	values map[string]any // by path
}

// Unmarshal makes koanf's map of the file's bytes. Problems go to the loader.
func (d *document) Unmarshal(b []byte) (map[string]any, error) {
	d.values = map[string]any{}
	root, err := decode(b)
	if err != nil {
		return nil, &Problem{Where: d.name, Text: fmt.Sprintf("this is no YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	if root != nil {
		d.section(root, "")
	}
	return maps.Unflatten(d.values, "."), nil
}

// Marshal is there for koanf's interface; nothing calls it.
func (d *document) Marshal(map[string]any) ([]byte, error) { return nil, errors.ErrUnsupported }

// decode returns the one document of b; nil: b holds none.
func decode(b []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("line %d: a second document begins here", more.Line)
	}
	return doc.Content[0], nil
}

func (d *document) problem(n *yaml.Node, key, format string, args ...any) {
	d.problems.add(d.name+":"+strconv.Itoa(n.Line), key, format, args...)
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for range 100 { // a chain so long can only be a circle
		if n.Kind != yaml.AliasNode || n.Alias == nil {
			break
		}
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// section reads a mapping whose keys are known; prefix ends in a dot.
func (d *document) section(n *yaml.Node, prefix string) {
	n = resolve(n)
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		what := sectionName(prefix)
		d.problem(n, what, "%s is %s, but it must be a mapping of keys to values", what, describe(n))
		return
	}
	d.pairs(n, prefix, func(name, value *yaml.Node) { d.entry(name, value, prefix+name.Value) })
}

func sectionName(prefix string) string {
	if prefix == "" {
		return "the configuration"
	}
	return strings.TrimSuffix(prefix, ".")
}

// pairs calls do for each key of a mapping that is a text and not a repetition.
func (d *document) pairs(n *yaml.Node, prefix string, do func(name, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := resolve(n.Content[i]), n.Content[i+1]
		line, again := seen[name.Value]
		switch {
		case name.Kind != yaml.ScalarNode:
			d.problem(name, "", "a key of %s is %s, but it must be a text", sectionName(prefix), describe(name))
		case name.ShortTag() == "!!merge":
			d.problem(name, "", "merge keys (<<) are not supported; write the keys out")
		case again:
			d.problem(name, prefix+name.Value, "%s is given twice, first at line %d", shorten(prefix+name.Value), line)
		default:
			seen[name.Value] = name.Line
			do(name, value)
		}
	}
}

// entry reads one key of a section.
func (d *document) entry(name, value *yaml.Node, path string) {
	if strings.Contains(name.Value, ".") { // "lanes.workers: 1" is not how YAML nests
		d.unknown(name, path)
		return
	}
	if k, ok := keysByPath[path]; ok {
		d.setting(k, resolve(value))
		return
	}
	switch {
	case path == handlersKey:
		d.readHandlers(value)
	case isSection(path):
		d.section(value, path+".")
	default:
		d.unknown(name, path)
	}
}

func (d *document) unknown(name *yaml.Node, path string) {
	d.problem(name, path, "there is no key %q; the nearest known key is %q", shorten(path), nearestKey(path))
}

// setting reads the value of a key.
func (d *document) setting(k key, n *yaml.Node) {
	if isNull(n) {
		return
	}
	if k.path == passwordKey {
		d.problem(n, k.path, "%s may not stand in the file: set %s, or name a file that holds it in kafka.sasl.password_file", k.path, k.variable())
		return
	}
	v, wrong := any(nil), ""
	if k.kind == list {
		v, wrong = d.list(k, n)
	} else {
		v, wrong = d.scalar(k, n)
	}
	if wrong != "" {
		d.problem(n, k.path, "%s", wrong)
		return
	}
	d.values[k.path] = v
}

func (d *document) list(k key, n *yaml.Node) (any, string) {
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Sprintf("%s is %s, but it must be a list, such as [a, b]", k.path, describe(n))
	}
	items := make([]string, 0, len(n.Content))
	for _, c := range n.Content {
		if c = resolve(c); !isPlain(c) {
			return nil, fmt.Sprintf("%s holds %s, but its items must be texts", k.path, describe(c))
		}
		items = append(items, c.Value)
	}
	return items, k.check(items)
}

func (d *document) scalar(k key, n *yaml.Node) (any, string) {
	if !isPlain(n) {
		return nil, fmt.Sprintf("%s is %s, but it must be %s", k.path, describe(n), k.kind)
	}
	var i int
	if k.kind == number && n.ShortTag() == "!!int" && n.Decode(&i) == nil { // 0x10, 1_000
		return i, k.check(i)
	}
	return k.parseScalar(n.Value)
}

// isPlain reports whether n is a value that its characters say all of.
func isPlain(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return true
	}
	return false
}

// describe is a node as a sentence names it.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "empty"
	case n.Kind == yaml.ScalarNode && !isPlain(n):
		return "of the type " + n.ShortTag()
	case n.Kind == yaml.ScalarNode:
		return strconv.Quote(shorten(n.Value))
	default:
		return "an alias that leads nowhere"
	}
}
