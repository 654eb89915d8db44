package debezium

import (
	"strings"
)

// position says where in a connector's source block the position of a change is.
type position struct {
	fields []string // in the order in which the id has them
	needed []string // without them there is no position
	exact  bool     // each row has a position of its own
}

var (
	binlog    = position{[]string{"server_id", "gtid", "file", "pos", "row"}, []string{"file", "pos", "row"}, true}
	positions = map[string]position{
		"postgresql": {[]string{"lsn", "txId"}, []string{"lsn"}, false},
		"mysql":      binlog,
		"mariadb":    binlog,
		"sqlserver":  {[]string{"commit_lsn", "change_lsn", "event_serial_no"}, []string{"change_lsn", "event_serial_no"}, true},
		"oracle":     {[]string{"scn", "txId", "rs_id", "ssn"}, []string{"scn"}, false},
		"db2":        {[]string{"commit_lsn", "change_lsn"}, []string{"change_lsn"}, false},
		"mongodb":    {[]string{"ts_ms", "ord"}, []string{"ts_ms", "ord"}, false},
	}
	// In snapshots the position of these is where the snapshot began.
	snapshots = map[string][]string{"sqlserver": {"commit_lsn"}, "db2": {"commit_lsn"}}
)

// id makes the event id, or says in a clause why there is none.
func (c *change) id() (id, problem string) {
	connector, _ := c.source.Get("connector").Text()
	p, known := positions[connector]
	if !known {
		return "", "The change event comes from a connector whose positions are not known"
	}
	needed, exact := p.needed, p.exact
	if c.inSnapshot() {
		exact = false
		if other, ok := snapshots[connector]; ok {
			needed = other
		}
	}
	for _, name := range needed {
		if c.source.Get(name).Missing() {
			return "", "The change event has no " + name + " in its source, which is where its position is"
		}
	}
	if !exact && len(c.key) == 0 {
		return "", "The change event has no key, and its position alone does not tell rows apart"
	}
	return c.path(connector, p)
}

func (c *change) path(connector string, p position) (id, problem string) {
	parts := []string{connector}
	for _, name := range append([]string{"name", "db", "schema", "table"}, p.fields...) {
		v := c.source.Get(name)
		if name == "table" && v.Missing() {
			v = c.source.Get("collection")
		}
		text, ok := textOf(v)
		if !ok || strings.IndexByte(text, 0) >= 0 {
			return "", "The change event's " + name + " in its source has no text that can be stored"
		}
		parts = append(parts, text)
	}
	parts = append(parts, c.op, c.digest())
	for i, part := range parts {
		parts[i] = escape.Replace(part)
	}
	return strings.Join(parts, "/"), ""
}

var escape = strings.NewReplacer("%", "%25", "/", "%2F")
