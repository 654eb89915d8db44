package ordering

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"
)

// What differs from event to event is taken out of a message before it is
// hashed, so that failures of one cause have one fingerprint. The order
// matters: what is quoted first, since ids stand in quotes.
var variable = []*regexp.Regexp{
	regexp.MustCompile(`\B'(?:[^'\\]|\\.)*'`),   // not the apostrophe of isn't
	regexp.MustCompile(`\([^()]*\)=\([^()]*\)`), // PostgreSQL's Key (id)=(17)
	regexp.MustCompile(`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`),
	regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?`),
	regexp.MustCompile(`\b0x[0-9a-fA-F]+\b`),
	regexp.MustCompile(`\b\S*\d\S*\b`),
}

// quoted is what stands in double quotes, with the word before it if that says
// that it is a name: which table is missing tells causes apart, which order is
// missing does not.
var quoted = regexp.MustCompile(`(\b(?:relation|table|view|column|constraint|index|sequence|schema|function|role|type) )?"(?:[^"\\]|\\.)*"`)

func unquote(s string) string {
	if s[0] == '"' {
		return "?"
	}
	return s
}

// fingerprint groups failures by cause: 12 hexadecimal digits of a hash over
// the SQLSTATE and the message without ids, numbers, times and quoted values.
func fingerprint(state, message string) string {
	first, _, _ := strings.Cut(message, "\n")
	first = quoted.ReplaceAllStringFunc(first, unquote)
	for _, v := range variable {
		first = v.ReplaceAllString(first, "?")
	}
	sum := sha256.Sum256([]byte(state + " " + strings.Join(strings.Fields(first), " ")))
	return hex.EncodeToString(sum[:6])
}

// storable makes a text fit for a text column, at most limit bytes long.
func storable(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}
