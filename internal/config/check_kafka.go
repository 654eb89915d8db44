package config

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
)

// topicOrPattern is a rule for one item of kafka.topics.
func topicOrPattern(s string) string {
	if !strings.HasPrefix(s, "^") {
		return topic(s)
	}
	_, err := regexp.Compile(s)
	if e, ok := err.(*syntax.Error); ok { //nolint:errorlint // it is what Compile returns
		return "that begins with ^ is a regular expression: " + string(e.Code) + " in " + e.Expr
	}
	return ""
}

func saslMechanism(k key, v any) string {
	if v.(string) == "" {
		return ""
	}
	return oneOf(saslMechanisms...)(k, v)
}

func instanceID(k key, v any) string {
	s := v.(string)
	if s == "" || topic(s) == "" {
		return ""
	}
	return k.refuse(v, "it must have 1 to 249 letters, digits, dots, dashes and underscores")
}

// refresh bounds kafka.topic_refresh: records of a topic that is deleted and made
// again are told from the old one's only when the topics are looked at.
func refresh(k key, v any) string {
	if d := v.(time.Duration); d < 100*time.Millisecond || d > 30*time.Second {
		return k.refuse(v, "it must be from 100ms to 30s")
	}
	return ""
}

func atLeastBytes(least Bytes) func(key, any) string {
	return func(k key, v any) string {
		if v.(Bytes) < least {
			return k.refuse(v, "it must be at least %s", least)
		}
		return ""
	}
}
