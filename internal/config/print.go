package config

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Print writes the configuration in effect as YAML that Load can read again,
// with passwords hidden. Where a file holds the URL, the file is printed. One
// thing is printed that Load refuses in a file: the xxxxx of a SASL password that
// the environment holds.
func (c *Config) Print(w io.Writer) error {
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(c.node()); err != nil {
		return err
	}
	return enc.Close()
}

// MarshalJSON is Print in JSON: the same keys, durations as texts, passwords
// hidden.
func (c *Config) MarshalJSON() ([]byte, error) {
	var v map[string]any
	if err := c.node().Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func (c *Config) node() *yaml.Node {
	c = c.Redacted()
	root := mapping()
	for _, k := range knownKeys {
		if c.inItsFile(k.path) {
			continue
		}
		if k.path == passwordKey && c.Kafka.SASL.Password == "" {
			continue // no file may hold it
		}
		put(root, k.path, valueNode(k.value(c)))
	}
	handlers := mapping()
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		add(handlers, name, c.Handlers[name].node())
	}
	add(root, handlersKey, handlers)
	return root
}

// inItsFile reports that a key is not to be printed: of a URL and the file that
// holds it, the one that was not given.
func (c *Config) inItsFile(path string) bool {
	switch d := c.Database; path {
	case "database.url":
		return d.URLFile != ""
	case "database.url_file":
		return d.URLFile == ""
	case "database.direct_url":
		return d.DirectURLFile != ""
	case "database.direct_url_file":
		return d.DirectURLFile == ""
	}
	return false
}

func (h Handler) node() *yaml.Node {
	n := mapping()
	switch {
	case h.Ignore:
		return valueNode("ignore")
	case h.Webhook == nil && len(h.SQL) == 0: // a policy alone
	case h.Webhook != nil:
		add(n, "webhook", h.Webhook.node())
	case len(h.SQL) == 1:
		add(n, "sql", valueNode(h.SQL[0]))
	default:
		statements := valueNode(h.SQL)
		statements.Style = 0
		add(n, "sql", statements)
	}
	if h.Retry != nil {
		add(n, "retry", h.Retry.node())
	}
	return n
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

// put sets a value at a dotted path, in the sections it needs.
func put(n *yaml.Node, path string, value *yaml.Node) {
	name, rest, nested := strings.Cut(path, ".")
	if !nested {
		add(n, name, value)
		return
	}
	// Keys of one section follow each other, so it can only be the last.
	if last := len(n.Content) - 2; last < 0 || n.Content[last].Value != name {
		add(n, name, mapping())
	}
	put(n.Content[len(n.Content)-1], rest, value)
}

func add(n *yaml.Node, name string, value *yaml.Node) {
	n.Content = append(n.Content, valueNode(name), value)
}

func valueNode(v any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	switch v := v.(type) {
	case string:
		n.SetString(v)
	case time.Duration:
		n.SetString(formatDuration(v))
	case int:
		n.Tag, n.Value = "!!int", strconv.Itoa(v)
	case float64:
		n.Value = strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(v)
	case Bytes:
		n.SetString(v.String())
	case []string:
		n.Kind, n.Tag, n.Style = yaml.SequenceNode, "!!seq", yaml.FlowStyle
		for _, item := range v {
			n.Content = append(n.Content, valueNode(item))
		}
	}
	return n
}
