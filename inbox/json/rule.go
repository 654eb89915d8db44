package jsonformat

import (
	"fmt"
	"strconv"
	"strings"
)

// Fields are the rules for each field of an event, in the order in which they
// are tried. See the package documentation for what a rule is.
type Fields struct {
	// EventID identifies the event for ever. ByOffset is a rule for it alone.
	EventID []string
	// AggregateID names the aggregate within which the event is ordered.
	AggregateID []string
	// EventType chooses the handler. "tombstone:TYPE" is a rule for it alone.
	EventType []string
	// Sequence is the producer's number within the aggregate. It is optional
	// in every record; where it is found it must be an integer of 64 bits.
	Sequence []string
	// OccurredAt is the producer's time: RFC 3339, or milliseconds since 1970.
	// Where nothing is found the record's own time is taken.
	OccurredAt []string
}

// DefaultFields are the rules used unless the configuration gives others.
func DefaultFields() Fields {
	return Fields{
		EventID:     []string{"header:id", "$.eventId"},
		AggregateID: []string{"key", "$.orderId"},
		EventType:   []string{"header:eventType", "$.eventType"},
		Sequence:    []string{"$.version"},
	}
}

// ByOffset is the rule that makes an event id of where the record is in Kafka,
// TOPIC-PARTITION-OFFSET. It is for producers that give their events no identity,
// and it costs what an identity is for: it tells only that Kafka delivered the
// same record again. An event that the producer sends twice is two records and
// two events, and so is one that a mirror or another topic holds a copy of. And a
// topic that is deleted and created again begins again at offset 0: its records
// are taken for those of the old one, and dropped as duplicates, for as long as
// ids are remembered.
const ByOffset = "topic-partition-offset"

type kind int

const (
	inHeader kind = iota
	inKey
	inValue
	inKafka     // ByOffset
	inTombstone // a type for records without a value
)

// rule is one place to look, parsed.
type rule struct {
	text string // as it was written
	kind kind
	name string // of inHeader: the header's; of inTombstone: the type
	path int    // of inValue: which of the paths, see paths
}

// only are the fields that a kind of rule is for, if it is for one alone.
var only = map[kind]string{inKafka: "event_id", inTombstone: "event_type"}

// step is one part of a path: the key of an object, or an index of a list.
type step struct {
	key   string
	index int // -1: it is a key
}

const howRulesLook = `a rule is "header:NAME", "ce:ATTRIBUTE", "key" or a path such as "$.order.items[0].id"; ` +
	`for event_id also "topic-partition-offset", for event_type also "tombstone:TYPE"`

// parseRule parses a rule; steps are those of a path.
func parseRule(text string) (r rule, steps []step, err error) {
	r.text = text
	prefix, name, _ := strings.Cut(text, ":")
	switch {
	case strings.HasPrefix(text, "$"):
		r.kind = inValue
		steps, err = parsePath(text)
	case text == "key":
		r.kind = inKey
	case text == ByOffset:
		r.kind = inKafka
	case prefix == "header" && name != "":
		r.kind, r.name = inHeader, name
	case prefix == "ce" && name != "":
		r.kind, r.name = inHeader, "ce_"+name
	case prefix == "tombstone" && name != "":
		r.kind, r.name = inTombstone, name
	case text == "header:" || text == "ce:" || text == "tombstone:":
		err = fmt.Errorf("the rule %q names nothing; %s", text, howRulesLook)
	default:
		err = fmt.Errorf("the rule %q is none: %s", text, howRulesLook)
	}
	return r, steps, err
}

// parsePath parses "$" followed by any number of ".name", "[3]" and ["name"].
func parsePath(text string) ([]step, error) {
	var steps []step
	for rest := text[1:]; rest != ""; {
		s, tail, problem := parseStep(rest)
		if problem != "" {
			return nil, fmt.Errorf("the path %q is wrong at %q: %s; %s", text, rest, problem, howRulesLook)
		}
		steps, rest = append(steps, s), tail
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("the path %q names nothing below the whole value; %s", text, howRulesLook)
	}
	return steps, nil
}

func parseStep(s string) (st step, rest, problem string) {
	switch s[0] {
	case '.':
		end := strings.IndexAny(s[1:], ".[")
		if end < 0 {
			end = len(s) - 1
		}
		if end == 0 {
			return st, "", "a name is missing after the dot"
		}
		return step{key: s[1 : end+1], index: -1}, s[end+1:], ""
	case '[':
		if len(s) > 1 && (s[1] == '"' || s[1] == '\'') {
			return quotedStep(s)
		}
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return st, "", "the bracket is not closed"
		}
		n, err := strconv.Atoi(s[1:end])
		if err != nil || n < 0 || s[1] == '+' {
			return st, "", "an index is a number from 0, and a name in brackets is quoted"
		}
		return step{index: n}, s[end+1:], ""
	default:
		return st, "", "a dot or a bracket is missing"
	}
}

// quotedStep parses ["any name"], for names that hold dots or brackets.
func quotedStep(s string) (st step, rest, problem string) {
	name, rest, found := strings.Cut(s[2:], s[1:2]+"]")
	if !found {
		return st, "", "the quoted name is not closed"
	}
	return step{key: name, index: -1}, rest, ""
}

// ValidateRules says in whole sentences which rules are wrong and how, or nil.
func ValidateRules(f Fields) error {
	_, err := compile(f)
	return err
}
