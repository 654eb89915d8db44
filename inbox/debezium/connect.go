package debezium

import (
	"encoding/base64"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/rawjson"
)

// wrapped is what a converter of Kafka Connect wrote, unwrapped.
type wrapped struct {
	raw      []byte        // as it came
	json     rawjson.Value // the value inside of the envelope, if it is JSON
	envelope bool          // there was one
	typed    bool          // it had a schema
	binary   bool          // the envelope says that a string is base64
}

// unwrap takes the envelope away.
func unwrap(raw []byte) wrapped {
	w := wrapped{raw: raw}
	v, ok := rawjson.Valid(raw)
	if !ok {
		return w
	}
	w.json = v
	if members := v.Members(); isEnvelope(members) {
		w.envelope = true
		w.json = members.Get("payload")
		kind, ok := members.Get("schema").Members().Get("type").Text()
		w.typed, w.binary = ok, kind == "bytes"
	}
	return w
}

// isEnvelope reports whether an object is the JSON converter's envelope: schema
// and payload and nothing else. The schema is null where there is none.
func isEnvelope(members rawjson.Members) bool {
	if len(members) != 2 {
		return false
	}
	schema, payload := members.Get("schema"), members.Get("payload")
	return payload != nil && (schema.Kind() == rawjson.Null || schema.Members().Get("type") != nil)
}

// bytes is the content: of a string what is in it, of an empty envelope an empty
// value, which is not the same as none.
func (w wrapped) bytes() []byte {
	switch w.json.Kind() {
	case rawjson.Null:
		if w.envelope {
			return []byte{}
		}
	case rawjson.String:
		text, ok := w.json.Text()
		if !ok {
			break
		}
		if w.binary {
			if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
				return raw
			}
		}
		return []byte(text)
	}
	if w.envelope {
		return w.json
	}
	return w.raw
}

// keyText is a key as an aggregate's id: the content of a scalar, the value of an
// object with one member, and the canonical JSON of any other value; nil for null.
// What is no JSON stays as it is.
func keyText(raw []byte) []byte {
	w := unwrap(raw)
	v := w.json
	if members := v.Members(); len(members) == 1 {
		v = members[0].Value
	}
	switch v.Kind() {
	case rawjson.None:
		return raw
	case rawjson.Null:
		return nil
	case rawjson.Object, rawjson.List:
		return v.Canonical()
	}
	if text, ok := v.Text(); ok {
		return []byte(text)
	}
	return v
}

// unwrapHeaders unwraps the values of headers, which have a converter, too.
func unwrapHeaders(headers []inbox.Header) []inbox.Header {
	plain := make([]inbox.Header, len(headers))
	for i, h := range headers {
		plain[i] = h
		if len(h.Value) > 1 && (h.Value[0] == '"' || h.Value[0] == '{') {
			plain[i].Value = unwrap(h.Value).bytes()
		}
	}
	return plain
}
