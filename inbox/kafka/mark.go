package kafka

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
)

// mark is what a source writes beside each offset it commits, in the metadata
// that Kafka keeps for it. Whoever reads the partition next learns from it what
// an offset alone does not say.
type mark struct {
	// topic is the id of the topic that the offset is of. Zero: not known. An
	// offset of another topic of the same name means nothing.
	topic sarama.Uuid
	// first is how many partitions the topic had when the group read it for the
	// first time, if it then began elsewhere than with the oldest record.
	// Partitions from first on were added later.
	first int32
	// stopped: the partition was found out of range and waits for a person.
	// An offset that is set by hand has no mark, and that is the way on.
	stopped bool
}

// ofAnother reports whether the offset is surely not of the topic with the id.
func (m mark) ofAnother(id sarama.Uuid) bool {
	return m.topic != id && m.topic != (sarama.Uuid{}) && id != (sarama.Uuid{})
}

// idText is a topic's id as people read it; empty for none.
func idText(id sarama.Uuid) string {
	if id == (sarama.Uuid{}) {
		return ""
	}
	return id.String()
}

const markPrefix = "inboxd"

// String writes the mark as words: "inboxd topic=… first=6 stopped".
func (m mark) String() string {
	words := []string{markPrefix}
	if m.topic != (sarama.Uuid{}) {
		words = append(words, "topic="+m.topic.String())
	}
	if m.first > 0 {
		words = append(words, "first="+strconv.Itoa(int(m.first)))
	}
	if m.stopped {
		words = append(words, "stopped")
	}
	return strings.Join(words, " ")
}

// parseMark reads what String wrote. What it does not know it passes over, so
// that later versions can add words; metadata of others is the zero mark.
func parseMark(metadata string) (m mark) {
	words := strings.Fields(metadata)
	if len(words) == 0 || words[0] != markPrefix {
		return mark{}
	}
	for _, word := range words[1:] {
		name, v, _ := strings.Cut(word, "=")
		switch name {
		case "topic":
			if b, err := base64.RawURLEncoding.DecodeString(v); err == nil && len(b) == len(m.topic) {
				copy(m.topic[:], b)
			}
		case "first":
			if n, err := strconv.ParseInt(v, 10, 32); err == nil {
				m.first = int32(n)
			}
		case "stopped":
			m.stopped = true
		}
	}
	return m
}
