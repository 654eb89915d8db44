package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Canonical returns one form for all texts of the same value: without space, the
// members of objects by the order of their names' bytes, strings with the fewest
// escapes. Numbers stay as they are written, so 1 and 1.0 are two values. Strings
// that have no text stay as they are written, too.
func (v Value) Canonical() []byte { return v.appendCanonical(nil) }

func (v Value) appendCanonical(out []byte) []byte {
	switch v.Kind() {
	case String:
		text, ok := v.unquote()
		if !ok {
			return append(out, v...)
		}
		return appendString(out, text)
	case Object:
		return appendObject(out, v.Members())
	case List:
		out = append(out, '[')
		for i, item := range v.Items() {
			if i > 0 {
				out = append(out, ',')
			}
			out = item.appendCanonical(out)
		}
		return append(out, ']')
	default:
		return append(out, v...)
	}
}

func appendObject(out []byte, members Members) []byte {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		if m.quoted != nil {
			out = append(out, m.quoted...)
		} else {
			out = appendString(out, m.Name)
		}
		out = m.Value.appendCanonical(append(out, ':'))
	}
	return append(out, '}')
}

// isPlain reports whether a text needs no escapes.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func appendString(out []byte, text string) []byte {
	if isPlain(text) {
		out = append(append(out, '"'), text...)
		return append(out, '"')
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		panic(err) // a string always has a form
	}
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}
