package debezium

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/rawjson"
)

// change is a change event, read.
type change struct {
	members   rawjson.Members
	source    rawjson.Members
	op        string
	eventType string
	key       []byte // as an aggregate's id; nil: there is none
}

// happened are the words for what an op says.
var happened = map[string]string{"c": "created", "u": "updated", "d": "deleted", "r": "snapshot", "m": "message"}

func parseChange(members rawjson.Members) (*change, error) {
	c := &change{members: members, source: members.Get("source").Members()}
	c.op, _ = members.Get("op").Text()
	word, known := happened[c.op]
	switch {
	case c.op == "t":
		return nil, inbox.Refuse("truncate", "The table was truncated, which is no event of one aggregate.")
	case !known:
		return nil, inbox.Refuse("bad-change", "The change event's op is none of c, u, d, r, t and m.")
	}
	name, ok := c.table()
	switch {
	case !ok:
		return nil, inbox.Refuse("bad-event-type", "The table's name in the change event has no UTF-8 form.")
	case name == "":
		return nil, inbox.Refuse("no-event-type", "The change event names no table, of which its type is made.")
	case strings.IndexByte(name, 0) >= 0:
		return nil, inbox.Refuse("bad-event-type", "The table's name in the change event holds a NUL byte.")
	}
	c.eventType = name + "." + word
	if len(c.eventType) > inbox.MaxName {
		return nil, inbox.Refuse("bad-event-type", "The table's name in the change event has %d bytes, more than can be stored.", len(name))
	}
	return c, nil
}

// table is what the event type begins with.
func (c *change) table() (name string, ok bool) {
	if c.op == "m" {
		return textOf(c.members.Get("message").Members().Get("prefix"))
	}
	if v := c.source.Get("table"); !v.Missing() {
		return textOf(v)
	}
	return textOf(c.source.Get("collection"))
}

func textOf(v rawjson.Value) (string, bool) {
	if v.Missing() {
		return "", true
	}
	return v.Text()
}

// inSnapshot reports whether a snapshot read the row.
func (c *change) inSnapshot() bool {
	if c.op == "r" {
		return true
	}
	text, _ := c.source.Get("snapshot").Text()
	return text != "" && text != "false"
}

// digested are the members that say what happened to which row, and the same each
// time that a change is sent.
var digested = []string{"before", "after", "patch", "filter", "updateDescription", "message"}

// digest tells changes apart that share a position.
func (c *change) digest() string {
	h := sha256.New()
	write := func(part []byte) {
		h.Write(part)
		h.Write([]byte{0})
	}
	write(c.key)
	for _, name := range digested {
		v := c.members.Get(name)
		if v.Missing() || name == "after" && !c.members.Get("updateDescription").Missing() {
			v = nil // the latter is MongoDB's: read when the change is sent, not when it was made
		}
		write(v.Canonical())
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
