package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
)

// Step turns the data of an older event into that of a newer one. Upcast makes
// it; Alias and WithVersions take it.
type Step struct {
	from, to reflect.Type
	codec    Codec // nil: the handler's
	run      func(codec Codec, m *Message, data any) (any, error)
}

// Upcast makes a Step of a function. Old is decoded from the payload as the data
// of a handler is, or comes from the step before; New is the data of the handler,
// or the Old of the next step. If New is []byte, json.RawMessage or string it is
// a payload, and decoded in its turn; that is also what an SQL handler needs.
//
// The function answers the same whenever it is asked, for an event is decoded
// anew for every attempt. Its error makes the lane stuck, unless it is another
// outcome, such as Skip.
func Upcast[Old, New any](up func(e Event[Old]) (New, error)) Step {
	from, to := reflect.TypeFor[Old](), reflect.TypeFor[New]()
	if up == nil {
		panic(fmt.Sprintf("handlers: the function to upcast %s to %s is nil", from, to))
	}
	return Step{from: from, to: to, run: func(codec Codec, m *Message, data any) (any, error) {
		e := Event[Old]{Message: *m}
		if old, ok := data.(Old); ok {
			e.Data = old
			return up(e)
		}
		if raw, ok := rawBytes(data); ok {
			e.Payload = raw
		}
		if err := decodeInto(codec, &e.Message, &e.Data); err != nil {
			return nil, err
		}
		return up(e)
	}}
}

// From sets the codec of the older payload, if it is not that of the handler.
func (s Step) From(codec Codec) Step {
	if isNil(codec) {
		panic("handlers: the codec of a Step is nil")
	}
	run := s.run
	s.codec = codec
	s.run = func(_ Codec, m *Message, data any) (any, error) { return run(codec, m, data) }
	return s
}

// checkSteps says why steps do not lead to the data of a handler.
func checkSteps(steps []Step, p *payload) error {
	to := reflect.Type(nil)
	for _, s := range steps {
		if s.run == nil {
			return errors.New("a step is empty; make it with Upcast")
		}
		codec := s.codec
		if codec == nil {
			codec = p.codec
		}
		if err := checkData(s.from, codec); err != nil {
			return err
		}
		if to != nil && to != s.from && !isRaw(to) {
			return fmt.Errorf("one step gives %s and the next takes %s", to, s.from)
		}
		to = s.to
	}
	if to == nil || to == p.data || isRaw(to) {
		return nil
	}
	if isRaw(p.data) {
		return fmt.Errorf("the last step gives %s, but the handler takes the payload itself: let it give []byte", to)
	}
	return fmt.Errorf("the last step gives %s, but the handler takes %s", to, p.data)
}

type alias struct {
	newer string
	steps []Step
}

// Alias has events of an older type run the handler of a newer one, as if they
// were of that type. Without steps the payloads are alike, and only the name has
// changed. The newer type may be an alias itself; then its steps follow. Event.Type
// keeps saying the type that the event was stored with.
//
// That the newer type has a handler, and that the steps lead to its data, is
// checked when everything is registered; see Registry.Check.
func Alias(r *Registry, older, newer string, steps ...Step) {
	r.mustBe("the alias " + older)
	if older == "" || newer == "" {
		panic(fmt.Sprintf("handlers: the alias of %q for %q has an empty event type", older, newer))
	}
	if err := checkType(older); err != nil {
		panic("handlers: " + err.Error())
	}
	if r.Has(older) {
		panic(fmt.Sprintf("handlers: event type %q is registered twice, once as an alias of %q", older, newer))
	}
	r.aliases[older] = alias{newer: newer, steps: steps}
}

// resolve follows an alias to its entry and gives the steps on the way.
func (r *Registry) resolve(older string) (*Entry, []Step, error) {
	var steps []Step
	seen := map[string]bool{}
	for at := older; ; {
		a, isAlias := r.aliases[at]
		if !isAlias {
			e := r.entries[at]
			switch {
			case e == nil:
				return nil, nil, fmt.Errorf("event type %q is an alias of %q, which has no handler", older, at)
			case e.Form == Ignored:
				return nil, nil, fmt.Errorf("event type %q is an alias of %q, which is ignored; ignore both", older, at)
			}
			if err := checkSteps(steps, e.payload); err != nil {
				return nil, nil, fmt.Errorf("event type %q is an alias of %q: %w", older, at, err)
			}
			return e, steps, nil
		}
		if seen[at] {
			return nil, nil, fmt.Errorf("event type %q is an alias of itself, by way of %q", older, a.newer)
		}
		seen[at] = true
		steps = append(steps, a.steps...)
		at = a.newer
	}
}

// VersionOf reads the version of an event's data, from 1. Its error makes the
// lane stuck.
type VersionOf func(m *Message) (int, error)

// VersionHeader reads the version from a header; an event without it has the
// version missing, usually 1.
func VersionHeader(name string, missing int) VersionOf {
	if name == "" {
		panic("handlers: VersionHeader needs the name of a header")
	}
	return func(m *Message) (int, error) { return parseVersion(m.Header(name), missing) }
}

// VersionField reads the version from a field of the payload, which is a JSON
// object; an event without it has the version missing, usually 1.
func VersionField(name string, missing int) VersionOf {
	if name == "" {
		panic("handlers: VersionField needs the name of a field")
	}
	return func(m *Message) (int, error) {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(m.Payload, &fields); err != nil {
			return 0, fmt.Errorf("look for the field %q: %w", name, err)
		}
		text := string(fields[name])
		if unquoted := ""; json.Unmarshal(fields[name], &unquoted) == nil {
			text = unquoted
		}
		return parseVersion(text, missing)
	}
}

func parseVersion(text string, missing int) (int, error) {
	if text == "" {
		return missing, nil
	}
	v, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a version; it is a whole number from 1", text)
	}
	return v, nil
}
