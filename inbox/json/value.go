package jsonformat

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// value is the JSON text of one valid value; nil if there is none.
type value []byte

// text returns the value as a field takes it: a string unescaped, a number or a
// boolean as it is written, and "" for null or nothing. Otherwise it says what
// the value is that cannot be used.
func (v value) text() (text, problem string) {
	if len(v) == 0 {
		return "", ""
	}
	switch v[0] {
	case '{':
		return "", "an object"
	case '[':
		return "", "a list"
	case 'n':
		return "", ""
	case '"':
		return v.unquote()
	default:
		return string(v), ""
	}
}

// isString reports whether the value, a string, is s.
func (v value) isString(s string) bool {
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == s
	}
	text, problem := v.unquote()
	return problem == "" && text == s
}

// unquote unescapes a string. Unlike encoding/json it replaces nothing.
func (v value) unquote() (text, problem string) {
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return plain(inner)
	}
	var out strings.Builder
	out.Grow(len(inner))
	for len(inner) > 0 {
		esc := bytes.IndexByte(inner, '\\')
		if esc < 0 {
			esc = len(inner)
		}
		out.Write(inner[:esc])
		inner = inner[esc:]
		if len(inner) == 0 {
			break
		}
		r, size := unescape(inner)
		if size == 0 {
			return "", "half of a surrogate pair, which has no UTF-8 form"
		}
		out.WriteRune(r)
		inner = inner[size:]
	}
	return plain([]byte(out.String()))
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
		r = hex4(s[2:])
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
			if r = utf16.DecodeRune(r, hex4(s[8:])); r != utf8.RuneError {
				return r, 12
			}
		}
		return 0, 0
	default: // a quote, a slash, a backslash
		return rune(s[1]), 2
	}
}

func hex4(s []byte) rune {
	n, _ := strconv.ParseUint(string(s[:4]), 16, 32) // valid JSON: four digits
	return rune(n)
}
