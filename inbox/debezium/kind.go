package debezium

import (
	"bytes"
	"slices"
	"strings"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/rawjson"
)

// kind is what a record of Debezium is.
type kind int

const (
	kindOther kind = iota // an outbox record, a tombstone, or not Debezium's
	kindChange
	kindHeartbeat
	kindTransaction
	kindSchema
)

const (
	heartbeats    = "__debezium-heartbeat" // topics begin with it
	outboxTopics  = "outbox.event."        // topics of the router begin with it
	contextHeader = "__debezium."          // names of headers begin with it
)

// kindOf looks at the members of an unwrapped value.
func kindOf(r *inbox.Record, members rawjson.Members) kind {
	source := members.Get("source").Members()
	switch {
	case source.Get("connector") != nil && members.Get("op").Kind() == rawjson.String:
		return kindChange
	case source.Get("connector") != nil && (members.Get("ddl") != nil || members.Get("tableChanges") != nil):
		return kindSchema
	case members.Get("status").Kind() == rawjson.String && members.Get("id") != nil &&
		members.Get("event_count") != nil && members.Get("data_collections") != nil:
		return kindTransaction
	case len(members) > 0 && members.Get("ts_ms") != nil && isHeartbeat(r, members):
		return kindHeartbeat
	}
	return kindOther
}

// isHeartbeat reports whether a record is one: by its topic, or, as topics can be
// renamed, by a key that names a server and nothing else.
func isHeartbeat(r *inbox.Record, members rawjson.Members) bool {
	if strings.HasPrefix(r.Source.Topic, heartbeats) {
		return true
	}
	key := unwrap(r.Key).json.Members()
	return len(members) == 1 && len(key) == 1 && key[0].Name == "serverName"
}

// Recognizes reports whether the record bears a mark of Debezium: a header with a
// name that begins with "__debezium."; the topic of a heartbeat; a value that,
// unwrapped, is a change event, a change of schemas or a transaction's begin or
// end; an envelope with a schema around the value, or around the key of a
// tombstone; or what the outbox event router writes through the JSON converter,
// which is a header id beside a topic that begins with "outbox.event.", a key that
// is a JSON string or an envelope, or a value that is a JSON string with JSON
// inside.
func (d *Decoder) Recognizes(r inbox.Record) bool {
	switch {
	case strings.HasPrefix(r.Source.Topic, heartbeats):
		return true
	case hasHeader(&r, func(name string) bool { return strings.HasPrefix(name, contextHeader) }):
		return true
	case isOutbox(&r):
		return true
	case r.Value == nil:
		return unwrap(r.Key).typed
	case !mayBe(r.Value):
		return false
	}
	value := unwrap(r.Value)
	return value.typed || kindOf(&r, value.json.Members()) != kindOther
}

// mayBe is a quick look for the words without which a value bears no mark.
func mayBe(value []byte) bool {
	has := func(word string) bool { return bytes.Contains(value, []byte(word)) }
	return has(`"source"`) && has(`"connector"`) || has(`"schema"`) && has(`"payload"`) || has(`"data_collections"`)
}

func isOutbox(r *inbox.Record) bool {
	if !hasHeader(r, func(name string) bool { return name == "id" }) {
		return false
	}
	return strings.HasPrefix(r.Source.Topic, outboxTopics) || isConverted(r.Key) || isJSONInString(r.Value)
}

// isConverted reports whether a key is a JSON string or an envelope.
func isConverted(key []byte) bool {
	if len(key) < 2 || key[0] != '"' && key[0] != '{' {
		return false
	}
	w := unwrap(key)
	return w.envelope || w.json.Kind() == rawjson.String
}

func isJSONInString(value []byte) bool {
	if len(value) < 2 || value[0] != '"' {
		return false
	}
	text, ok := unwrap(value).json.Text()
	if !ok {
		return false
	}
	inner, ok := rawjson.Valid([]byte(text))
	return ok && inner.Kind() >= rawjson.Object
}

func hasHeader(r *inbox.Record, is func(name string) bool) bool {
	return slices.ContainsFunc(r.Headers, func(h inbox.Header) bool { return is(h.Name) })
}
