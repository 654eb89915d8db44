package cloudevents

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/rawjson"
)

// known are the attributes of the specification itself, which must be scalars.
var known = []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"}

// fromJSON reads a record in structured mode.
func fromJSON(r *inbox.Record) (*message, error) {
	v, ok := rawjson.Valid(r.Value)
	switch {
	case !ok:
		return nil, inbox.Refuse("not-json", "The content type says that the value is a CloudEvent in JSON, but its %d bytes are no JSON.", len(r.Value))
	case v.Kind() != rawjson.Object:
		return nil, inbox.Refuse("not-an-object", "The content type says that the value is one CloudEvent, but it is %s.", v.Kind())
	}
	members := v.Members()
	m := &message{}
	attributes, hidden, err := attributesOf(members)
	if err != nil {
		return nil, err
	}
	dataType := last(attributes, Prefix+"datacontenttype")
	if m.data, err = data(members, isJSON(dataType)); err != nil {
		return nil, err
	}
	attributes = withContentType(attributes, members)
	m.lookup = append(others(r.Headers, attributes), attributes...)
	m.headers = m.lookup
	if len(hidden) > 0 {
		m.headers = append(others(m.lookup, hidden), hidden...)
	}
	return m, nil
}

// attributesOf makes headers of all members but the data. Those that have no
// text, so that no rule may look into them, are apart.
func attributesOf(members rawjson.Members) (attributes, hidden []inbox.Header, err error) {
	for _, member := range members {
		if member.Name == "data" || member.Name == "data_base64" || member.Value.Missing() {
			continue
		}
		text, ok := member.Value.Text()
		switch {
		case ok:
			attributes = append(attributes, inbox.Header{Name: Prefix + member.Name, Value: []byte(text)})
		case slices.Contains(known, member.Name):
			return nil, nil, badAttribute(member)
		default:
			hidden = append(hidden, inbox.Header{Name: Prefix + member.Name, Value: member.Value})
		}
	}
	return attributes, hidden, nil
}

func badAttribute(member rawjson.Member) error {
	if member.Value.Kind() == rawjson.String {
		return inbox.Refuse("bad-attribute", "The CloudEvents attribute %s has no UTF-8 form.", member.Name)
	}
	return inbox.Refuse("bad-attribute", "The CloudEvents attribute %s is %s, but it must be a string.", member.Name, member.Value.Kind())
}

// withContentType puts datacontenttype where binary mode has it. Data that is in
// JSON, because nothing else is said, is said to be in JSON.
func withContentType(attributes []inbox.Header, members rawjson.Members) []inbox.Header {
	at := slices.IndexFunc(attributes, func(h inbox.Header) bool { return h.Name == Prefix+"datacontenttype" })
	switch {
	case at >= 0:
		h := inbox.Header{Name: "content-type", Value: attributes[at].Value}
		return append(slices.Delete(attributes, at, at+1), h)
	case members.Get("data") != nil:
		return append(attributes, inbox.Header{Name: "content-type", Value: []byte("application/json")})
	}
	return attributes
}

// others are the headers whose place none of the attributes takes.
func others(headers, attributes []inbox.Header) []inbox.Header {
	kept := make([]inbox.Header, 0, len(headers)+len(attributes))
	for _, h := range headers {
		isContentType := strings.EqualFold(h.Name, "content-type") && strings.HasPrefix(strings.ToLower(string(h.Value)), mediaType)
		if !isContentType && !slices.ContainsFunc(attributes, func(a inbox.Header) bool { return a.Name == h.Name }) {
			kept = append(kept, h)
		}
	}
	return kept
}

// isJSON reports whether a content type is that of JSON; none is, too.
func isJSON(contentType string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	kind = strings.TrimSpace(kind)
	return kind == "" || strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json")
}

// data is what the event carries, nil if nothing. A data member that is null is
// JSON's null, unless the data is no JSON.
func data(members rawjson.Members, json bool) ([]byte, error) {
	encoded, plain := members.Get("data_base64"), members.Get("data")
	switch {
	case !encoded.Missing() && !plain.Missing():
		return nil, inbox.Refuse("bad-data", "The CloudEvent has both data and data_base64, but only one of them can be its data.")
	case !encoded.Missing():
		return decoded(encoded)
	case plain.Missing() && !json, plain == nil:
		return nil, nil
	case json || plain.Kind() != rawjson.String:
		return plain, nil
	}
	text, ok := plain.Text()
	if !ok {
		return nil, inbox.Refuse("bad-data", "The CloudEvent's data is a string that has no UTF-8 form, because half of a surrogate pair is in it.")
	}
	return []byte(text), nil
}

func decoded(encoded rawjson.Value) ([]byte, error) {
	text, ok := encoded.Text()
	if !ok || encoded.Kind() != rawjson.String {
		return nil, inbox.Refuse("bad-data", "The CloudEvent's data_base64 is %s, but it must be a string in base64.", encoded.Kind())
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		raw, err = base64.RawStdEncoding.DecodeString(text)
	}
	if err != nil {
		return nil, inbox.Refuse("bad-data", "The CloudEvent's data_base64 is no base64.")
	}
	return raw, nil
}
