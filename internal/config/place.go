package config

import (
	"strconv"
	"strings"
)

const placeForms = "is key, header:NAME or a JSON path such as $.order.id or $.items[0].id"

// place is the rule for where a field is found: "key", "header:NAME" or
// "$.path".
func place(s string) string {
	if s == "key" {
		return ""
	}
	if name, ok := strings.CutPrefix(s, "header:"); ok && name != "" && strings.TrimSpace(name) == name {
		return ""
	}
	if path, ok := strings.CutPrefix(s, "$"); ok && path != "" && isPath(path) {
		return ""
	}
	return placeForms
}

// isPath reports whether s is a row of steps, ".name" or "[n]".
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
		step, rest, ok = strings.Cut(s[1:], "]")
		_, err := strconv.ParseUint(step, 10, 31)
		return step, rest, ok && err == nil
	default:
		return "", "", false
	}
}
