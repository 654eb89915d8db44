package config

import (
	"strconv"
	"strings"
)

const placeForms = "is key, header:NAME, ce:ATTRIBUTE or a JSON path such as $.order.id or $.items[0].id"

// byOffset is the place of an identity that the producer did not give.
const byOffset = "topic-partition-offset"

// tombstoneType begins the place of a type for records without a value.
const tombstoneType = "tombstone:"

// place is the rule for where a field is found: "key", "header:NAME",
// "ce:ATTRIBUTE" or "$.path".
func place(s string) string {
	if s == "key" {
		return ""
	}
	for _, prefix := range []string{"header:", "ce:"} {
		if name, ok := strings.CutPrefix(s, prefix); ok && isName(name) {
			return ""
		}
	}
	if path, ok := strings.CutPrefix(s, "$"); ok && path != "" && isPath(path) {
		return ""
	}
	switch {
	case s == byOffset:
		return "is " + byOffset + " for kafka.fields.event_id alone"
	case strings.HasPrefix(s, tombstoneType):
		return "is " + tombstoneType + "TYPE for kafka.fields.event_type alone"
	}
	return placeForms
}

// idPlace is place for event_id.
func idPlace(s string) string {
	if s == byOffset {
		return ""
	}
	return place(s)
}

// typePlace is place for event_type.
func typePlace(s string) string {
	if name, ok := strings.CutPrefix(s, tombstoneType); ok && isName(name) {
		return ""
	}
	return place(s)
}

func isName(s string) bool { return s != "" && strings.TrimSpace(s) == s }

// isPath reports whether s is a row of steps, ".name", "[n]" or ["name"].
func isPath(s string) bool {
	for s != "" {
		step, rest, ok := cutStep(s)
		if !ok || step == "" {
			return false
		}
		s = rest
	}
	return true
}

func cutStep(s string) (step, rest string, ok bool) {
	switch s[0] {
	case '.':
		step, rest = s[1:], ""
		if i := strings.IndexAny(step, ".[]"); i >= 0 {
			step, rest = step[:i], step[i:]
		}
		return step, rest, strings.TrimSpace(step) == step
	case '[':
		if len(s) > 1 && (s[1] == '"' || s[1] == '\'') { // a name that holds dots or brackets
			return cutQuoted(s)
		}
		step, rest, ok = strings.Cut(s[1:], "]")
		_, err := strconv.ParseUint(step, 10, 31)
		return step, rest, ok && err == nil
	default:
		return "", "", false
	}
}

// cutQuoted cuts a step of the form ["name"]. Its name may be empty.
func cutQuoted(s string) (step, rest string, ok bool) {
	_, rest, ok = strings.Cut(s[2:], s[1:2]+"]")
	return s[:len(s)-len(rest)], rest, ok
}
