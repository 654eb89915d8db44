package kafka

import (
	"errors"
	"regexp"
	"strings"

	"github.com/IBM/sarama"
)

// errNoMatch is why a pattern brings nothing.
var errNoMatch = errors.New("no topic matches it")

// pattern chooses topics by their names.
type pattern struct {
	text string // as configured
	re   *regexp.Regexp
}

// parseTopic reads an item of Config.Topics: a pattern, or nil for a plain name.
func parseTopic(s string) (*pattern, error) {
	if !strings.HasPrefix(s, "^") {
		return nil, nil
	}
	if _, err := regexp.Compile(s); err != nil { // before the group below can hide it
		return nil, err
	}
	re, err := regexp.Compile(`^(?:` + s + `)$`)
	return &pattern{s, re}, err
}

// choose takes, of all topics that there are, those that are configured, and says
// for which names and patterns there is none. Kafka's own are none of the user's
// even if a pattern matches them.
func (t *topics) choose(all map[string]topicInfo, refusals map[string]error) (found map[string]topicInfo, refused map[string]error) {
	found, refused = map[string]topicInfo{}, map[string]error{}
	for _, name := range t.names {
		info, ok := all[name]
		switch {
		case ok:
			found[name] = info
		case refusals[name] != nil:
			refused[name] = refusals[name]
		default:
			refused[name] = sarama.ErrUnknownTopicOrPartition
		}
	}
	for _, p := range t.patterns {
		matched := false
		for name, info := range all {
			if !strings.HasPrefix(name, "__") && p.re.MatchString(name) {
				found[name], matched = info, true
			}
		}
		if !matched {
			refused[p.text] = errNoMatch
		}
	}
	return found, refused
}
