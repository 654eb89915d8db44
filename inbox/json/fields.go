package jsonformat

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/rawjson"
)

// field is one field of an event, with its rules parsed.
type field struct {
	name  string // as the configuration calls it
	word  string // as the reasons of refusals call it
	rules []rule
}

// fields are the rules of a decoder, parsed, with the paths of all of them
// joined into one tree so that a value is walked once.
type fields struct {
	id, aggregate, eventType, sequence, occurred field
	paths                                        paths
}

func compile(f Fields) (*fields, error) {
	c := &fields{}
	var errs []error
	for _, one := range []struct {
		to         *field
		name, word string
		rules      []string
	}{
		{&c.id, "event_id", "event-id", f.EventID},
		{&c.aggregate, "aggregate_id", "aggregate-id", f.AggregateID},
		{&c.eventType, "event_type", "event-type", f.EventType},
		{&c.sequence, "sequence", "sequence", f.Sequence},
		{&c.occurred, "occurred_at", "occurred-at", f.OccurredAt},
	} {
		*one.to = field{name: one.name, word: one.word}
		for _, text := range one.rules {
			r, steps, err := parseRule(text)
			if err == nil && only[r.kind] != "" && only[r.kind] != one.name {
				err = fmt.Errorf("the rule %q is for fields.%s alone", text, only[r.kind])
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("fields.%s: %w", one.name, err))
				continue
			}
			if r.kind == inValue {
				r.path = c.paths.add(steps)
			}
			one.to.rules = append(one.to.rules, r)
		}
	}
	return c, errors.Join(errs...)
}

// required are the fields without which there is no event.
func (c *fields) required() []*field { return []*field{&c.id, &c.aggregate, &c.eventType} }

// has reports whether the field has a rule of the kind.
func (f *field) has(k kind) bool {
	return slices.ContainsFunc(f.rules, func(r rule) bool { return r.kind == k })
}

// looksOutside reports whether a rule of the field needs no JSON.
func (f *field) looksOutside() bool {
	for _, r := range f.rules {
		if r.kind != inValue {
			return true
		}
	}
	return false
}

// tried names the rules for the detail of a refusal.
func (f *field) tried() string {
	names := make([]string, len(f.rules))
	for i, r := range f.rules {
		names[i] = r.text
	}
	return strings.Join(names, ", ")
}

// found is what the rules looked at: the record, and its value's fields if the
// value was read as JSON.
type found struct {
	record *inbox.Record
	values []rawjson.Value // by path; nil: the value is not read
}

// find returns the text that the first rule with a hit found, and that rule; ""
// if there is none. It refuses what cannot be used.
func (f *field) find(in found) (text string, by rule, err error) {
	for _, r := range f.rules {
		text, problem := r.look(in)
		if problem != "" {
			return "", r, inbox.Refuse("bad-"+f.word, "The rule %q for %s found %s.", r.text, f.name, problem)
		}
		if text != "" {
			return text, r, nil
		}
	}
	return "", rule{}, nil
}

// must is find for a field that an event cannot be without.
func (f *field) must(in found) (string, error) {
	text, by, err := f.find(in)
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", inbox.Refuse("no-"+f.word, "No %s was found; tried: %s.", f.name, f.tried())
	case len(text) > inbox.MaxName:
		return "", inbox.Refuse("bad-"+f.word, "The rule %q for %s found %d bytes, more than the %d that can be stored.",
			by.text, f.name, len(text), inbox.MaxName)
	}
	return text, nil
}

// look returns the text at the rule's place, "" if there is none, or says what
// is wrong with it.
func (r rule) look(in found) (text, problem string) {
	switch r.kind {
	case inKey:
		return plain(in.record.Key)
	case inHeader:
		for i := len(in.record.Headers) - 1; i >= 0; i-- {
			if in.record.Headers[i].Name == r.name {
				return plain(in.record.Headers[i].Value)
			}
		}
		return "", ""
	case inKafka:
		if s := in.record.Source; !s.IsZero() {
			return fmt.Sprintf("%s-%d-%d", s.Topic, s.Partition, s.Offset), ""
		}
		return "", ""
	case inTombstone:
		if in.record.Value == nil {
			return plain([]byte(r.name))
		}
		return "", ""
	default:
		if in.values == nil {
			return "", ""
		}
		return textOf(in.values[r.path])
	}
}

// What can be wrong with a text, in the words of refusals.
const (
	noUTF8 = "bytes that are no UTF-8"
	nul    = "a NUL byte"
)

func plain(b []byte) (text, problem string) {
	switch {
	case !utf8.Valid(b):
		return "", noUTF8
	case bytes.IndexByte(b, 0) >= 0:
		return "", nul
	}
	return string(b), ""
}

// textOf returns what is at a path as a field takes it: a string unescaped, a
// number or a boolean as it is written, and "" for null or nothing. Otherwise it
// says what is there that cannot be used.
func textOf(v rawjson.Value) (text, problem string) {
	text, ok := v.Text()
	switch {
	case ok && strings.IndexByte(text, 0) >= 0:
		return "", nul
	case ok:
		return text, ""
	case v.Missing():
		return "", ""
	case v.Kind() != rawjson.String:
		return "", v.Kind().String()
	case !utf8.Valid(v):
		return "", noUTF8
	}
	return "", "half of a surrogate pair, which has no UTF-8 form"
}
