package cloudevents

import (
	"bytes"
	"mime"
	"strings"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/rawjson"
)

// mode is how a record holds a CloudEvent.
type mode int

const (
	modeNone mode = iota
	modeBinary
	modeStructured
	modeBatch
	modeUnknown // structured, but not in JSON or not in UTF-8
)

// mediaType begins the content types of structured mode.
const mediaType = "application/cloudevents"

func modeOf(r *inbox.Record) mode {
	switch contentType := contentTypeOf(r.Headers); {
	case r.Value != nil && len(contentType) >= len(mediaType) && strings.EqualFold(contentType[:len(mediaType)], mediaType):
		return structured(contentType)
	case prefixOf(r.Headers) != "":
		return modeBinary
	case hasAttributes(r.Value):
		return modeStructured
	}
	return modeNone
}

// contentTypeOf is the record's content type, "" if it says none. Spring calls
// the header contentType, and writes it as a JSON string.
func contentTypeOf(headers []inbox.Header) string {
	for i := len(headers) - 1; i >= 0; i-- {
		if name := headers[i].Name; strings.EqualFold(name, "content-type") || name == "contentType" {
			return strings.TrimSpace(string(unquoted(headers[i].Value)))
		}
	}
	return ""
}

// structured tells the content types of structured mode apart.
func structured(contentType string) mode {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil { // at worst the parameters are lost
		kind, _, _ = strings.Cut(strings.ToLower(contentType), ";")
	}
	switch charset := strings.ToLower(params["charset"]); charset {
	case "", "utf-8", "utf8", "us-ascii":
	default:
		return modeUnknown
	}
	switch strings.TrimPrefix(strings.TrimSpace(kind), mediaType) {
	case "", "+json":
		return modeStructured
	case "-batch", "-batch+json":
		return modeBatch
	}
	return modeUnknown
}

var specversion = []byte(`"specversion"`)

// hasAttributes reports whether a value is a JSON object with the attributes
// that every CloudEvent has.
func hasAttributes(value []byte) bool {
	if !bytes.Contains(value, specversion) {
		return false
	}
	v, ok := rawjson.Valid(value)
	if !ok || v.Kind() != rawjson.Object {
		return false
	}
	m := v.Members()
	for _, name := range []string{"specversion", "id", "source", "type"} {
		if m.Get(name).Kind() != rawjson.String {
			return false
		}
	}
	return true
}
