package handlers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/inboxd/inboxd/inbox"
)

// Codec makes the data of a handler out of an event's payload. WithCodec chooses
// it for a registry or for a type.
type Codec interface {
	// Decode decodes m.Payload into what into points to: a new value of the
	// handler's type, or, if that is itself a pointer, of what it points to. It
	// may look at the headers, for a content type or a schema's number, and must
	// not change m. An error makes the lane stuck, for the payload will not
	// change; an error that is an outcome, such as Pause, is taken as that. It
	// may be called by several goroutines at once.
	Decode(m *Message, into any) error
}

// DataChecker is a Codec that knows without a payload whether it can decode into
// what a handler takes. It is asked when the handler is registered, so that a
// handler of the wrong type is found at start-up.
type DataChecker interface {
	Codec
	// CheckData gets what Decode would get as into, and says why it cannot be
	// decoded into; nil: it can.
	CheckData(into any) error
}

// JSON decodes payloads with encoding/json. The zero JSON is the default.
//
// A number decoded into any is a float64 and loses digits past the fifteenth;
// fields of type int64, json.Number or string (with the tag option "string")
// keep them, and so does UseNumber.
type JSON struct {
	// RefuseUnknown has fails a payload with a field that the data does not have. By
	// default it is passed over, so that producers may add fields.
	RefuseUnknown bool
	// UseNumber decodes numbers into any as json.Number, all digits kept.
	UseNumber bool
}

// Decode decodes the payload, which has to be one JSON value.
func (j JSON) Decode(m *Message, into any) error {
	if j == (JSON{}) {
		return json.Unmarshal(m.Payload, into)
	}
	d := json.NewDecoder(bytes.NewReader(m.Payload))
	if j.RefuseUnknown {
		d.DisallowUnknownFields()
	}
	if j.UseNumber {
		d.UseNumber()
	}
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the payload is empty")
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the JSON value")
	}
	return nil
}

// decodeInto decodes into a variable of a handler's type. Three types take the
// payload as it came.
func decodeInto[T any](codec Codec, m *Message, data *T) error {
	switch data := any(data).(type) {
	case *[]byte:
		*data = m.Payload
		return nil
	case *json.RawMessage:
		*data = m.Payload
		return nil
	case *string:
		*data = string(m.Payload)
		return nil
	}
	into := any(data)
	if t := reflect.TypeFor[T](); t.Kind() == reflect.Pointer {
		into = reflect.New(t.Elem()).Interface() // never nil, also if the payload is null
		*data = into.(T)
	}
	err := codec.Decode(m, into)
	if err == nil {
		return nil
	}
	return lasting(fmt.Errorf("decode payload of %s into %s: %w", m.Type, reflect.TypeFor[T](), err))
}

// lasting makes an error permanent unless it is some other outcome.
func lasting(err error) error {
	if OutcomeOf(err) != Failed {
		return err
	}
	return Permanent(err)
}

// isRaw reports whether the type takes the payload as it came.
func isRaw(t reflect.Type) bool {
	return t == reflect.TypeFor[[]byte]() || t == reflect.TypeFor[json.RawMessage]() || t == reflect.TypeFor[string]()
}

// rawBytes gives the payload that a value of a raw type is.
func rawBytes(v any) ([]byte, bool) {
	switch v := v.(type) {
	case []byte:
		return v, true
	case json.RawMessage:
		return v, true
	case string:
		return []byte(v), true
	}
	return nil, false
}

// checkData says what keeps a type from being the data of a handler, which the
// compiler cannot see.
func checkData(t reflect.Type, codec Codec) error {
	if isRaw(t) {
		return nil
	}
	base := t
	if t.Kind() == reflect.Pointer {
		base = t.Elem()
	}
	if base == reflect.TypeFor[Message]() || base == reflect.TypeFor[inbox.Event]() || isEvent(base) {
		return fmt.Errorf("%s is the event, of which it gets the payload alone; name the payload's type, and Event has the rest", t)
	}
	switch base.Kind() {
	case reflect.Interface:
		return fmt.Errorf("%s is an interface and does not say what to decode into; name a struct, a map, or []byte for the payload as it came", t)
	case reflect.Pointer:
		return fmt.Errorf("%s is a pointer to a pointer; %s will do", t, base)
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return fmt.Errorf("no payload can be decoded into %s", t)
	}
	switch codec := codec.(type) {
	case JSON:
		return checkJSON(base)
	case DataChecker:
		return codec.CheckData(reflect.New(base).Interface())
	}
	return nil
}

// isEvent reports whether the type is an Event, of whatever data.
func isEvent(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[Message]().PkgPath() && strings.HasPrefix(t.Name(), "Event[")
}

// isNil reports whether a codec is nil, or a nil pointer.
func isNil(c Codec) bool {
	v := reflect.ValueOf(c)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// checkJSON finds types that encoding/json leaves empty in silence, or never fills.
func checkJSON(t reflect.Type) error {
	pointer := reflect.PointerTo(t)
	if pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		pointer.Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Complex64, reflect.Complex128:
		return fmt.Errorf("JSON cannot be decoded into %s", t)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.IsExported() && f.Tag.Get("json") != "-" {
				return nil
			}
		}
		if t.NumField() > 0 {
			return fmt.Errorf("%s has no exported field, so that JSON would fill none", t)
		}
	}
	return nil
}
