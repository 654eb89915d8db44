package rawjson

import (
	"bytes"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

// Value is the text of one JSON value. An empty Value is one that is not there.
type Value []byte

// Kind is what a value is.
type Kind byte

// Kinds of values; None is that of a value that is not there.
const (
	None Kind = iota
	Null
	Bool
	Number
	String
	Object
	List
)

func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an object", "a list"}[k]
}

// Valid returns the text as a Value without the space around it, or false if it
// is no JSON.
func Valid(text []byte) (Value, bool) {
	if !json.Valid(text) {
		return nil, false
	}
	return Value(bytes.Trim(text, " \t\r\n")), true
}

// Kind says what the value is.
func (v Value) Kind() Kind {
	if len(v) == 0 {
		return None
	}
	switch v[0] {
	case 'n':
		return Null
	case 't', 'f':
		return Bool
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return List
	default:
		return Number
	}
}

// Missing reports whether the value is not there or null.
func (v Value) Missing() bool { return v.Kind() <= Null }

// Text returns a string unescaped, and a number or a boolean as it is written.
// It is false for every other value, and for a string with bytes that are no
// UTF-8 or with half of a surrogate pair, which has no text.
func (v Value) Text() (string, bool) {
	switch v.Kind() {
	case String:
		return v.unquote()
	case Number, Bool:
		return string(v), true
	default:
		return "", false
	}
}

// IsText reports whether the value is a string of that text.
func (v Value) IsText(text string) bool {
	if v.Kind() != String {
		return false
	}
	if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == text
	}
	unquoted, ok := v.unquote()
	return ok && unquoted == text
}

func (v Value) unquote() (string, bool) {
	inner := v[1 : len(v)-1]
	if !utf8.Valid(inner) {
		return "", false
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), true
	}
	out := make([]byte, 0, len(inner))
	for len(inner) > 0 {
		escape := bytes.IndexByte(inner, '\\')
		if escape < 0 {
			return string(append(out, inner...)), true
		}
		out = append(out, inner[:escape]...)
		r, size := unescape(inner[escape:])
		if size == 0 {
			return "", false
		}
		out = utf8.AppendRune(out, r)
		inner = inner[escape+size:]
	}
	return string(out), true
}

// unescape returns the character that the escape at the start of s stands for,
// and the escape's length; 0 if it stands for none.
func unescape(s []byte) (r rune, size int) {
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
	default: // a quote, a slash, a backslash
		return rune(s[1]), 2
	}
	r = hex(s[2:6])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if r = utf16.DecodeRune(r, hex(s[8:12])); r != utf8.RuneError {
			return r, 12
		}
	}
	return 0, 0
}

func hex(digits []byte) (r rune) {
	for _, d := range digits {
		r <<= 4
		switch {
		case d <= '9':
			r |= rune(d - '0')
		default:
			r |= rune(d|0x20-'a') + 10
		}
	}
	return r
}
