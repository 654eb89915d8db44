package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// secretKeys hold values that no message repeats as they are.
var secretKeys = map[string]bool{"database.url": true, "database.direct_url": true, passwordKey: true}

// show is a value as a message quotes it.
func (k key) show(v any) string {
	switch v := v.(type) {
	case string:
		switch {
		case k.path == passwordKey:
			v = redacted
		case secretKeys[k.path]:
			v = RedactURL(v)
		}
		return fmt.Sprintf("%q", shorten(v))
	case time.Duration:
		return formatDuration(v)
	default:
		return fmt.Sprint(v)
	}
}

// shorten keeps a message readable when a value is not.
func shorten(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// parse reads the value from a text that is not YAML: an environment variable
// or a flag. A list is written with commas. The answer is a sentence if the
// value is of the wrong type or breaks the key's rule.
func (k key) parse(s string) (any, string) {
	if k.kind != list {
		return k.parseScalar(s)
	}
	items := []string{}
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items, k.check(items)
}

// parseScalar is parse for what is no list.
func (k key) parseScalar(s string) (any, string) {
	var (
		v   any = s
		err error
	)
	switch k.kind {
	case number:
		v, err = strconv.Atoi(strings.TrimSpace(s))
	case duration:
		v, err = parseDuration(strings.TrimSpace(s))
	case truth:
		v, err = parseTruth(strings.TrimSpace(s))
	case size:
		v, err = parseBytes(strings.TrimSpace(s))
	case fraction:
		v, err = strconv.ParseFloat(strings.TrimSpace(s), 64)
	}
	if err != nil {
		return nil, k.wrongType(s)
	}
	return v, k.check(v)
}

func (k key) wrongType(s string) string {
	return fmt.Sprintf("%s is %s, but it must be %s", k.path, k.show(s), k.kind)
}

// check holds a value of the right type against the key's rule.
func (k key) check(v any) string {
	if s := k.checkText(v); s != "" {
		return s
	}
	if rule := rules[k.path]; rule != nil {
		return rule(k, v)
	}
	return ""
}

// checkText refuses what no key may hold.
func (k key) checkText(v any) string {
	for _, s := range texts(v) {
		switch {
		case !utf8.ValidString(s):
			return fmt.Sprintf("%s is no valid UTF-8", k.path)
		case strings.IndexByte(s, 0) >= 0:
			return fmt.Sprintf("%s holds a NUL byte", k.path)
		}
	}
	return ""
}

func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []string:
		return v
	default:
		return nil
	}
}

// parseDuration is time.ParseDuration without a bare 0, which has no unit.
func parseDuration(s string) (time.Duration, error) {
	if _, err := strconv.Atoi(s); err == nil {
		return 0, fmt.Errorf("%q has no unit", s)
	}
	return time.ParseDuration(s)
}

// formatDuration writes 1m0s as 1m and 168h0m0s as 168h.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
