package inbox

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Headers are stored as a JSON list of [name, value] pairs, so that repeated
// names and their order survive. JSON in the database can hold neither NUL nor
// bytes that are no UTF-8: such a name or value stands as {"base64": "…"}.

type base64Text struct {
	Base64 []byte `json:"base64"`
}

// EncodeHeaders gives the form in which headers are stored; nil for none.
func EncodeHeaders(headers []Header) ([]byte, error) {
	if len(headers) == 0 {
		return nil, nil
	}
	pairs := make([][2]any, len(headers))
	for i, h := range headers {
		pairs[i] = [2]any{jsonText([]byte(h.Name)), jsonText(h.Value)}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(pairs); err != nil {
		return nil, fmt.Errorf("encode headers: %w", err)
	}
	return b.Bytes(), nil
}

// DecodeHeaders is the inverse of EncodeHeaders.
func DecodeHeaders(stored []byte) ([]Header, error) {
	if len(stored) == 0 {
		return nil, nil
	}
	var pairs [][2]json.RawMessage
	if err := json.Unmarshal(stored, &pairs); err != nil {
		return nil, fmt.Errorf("decode headers: %w", err)
	}
	headers := make([]Header, len(pairs))
	for i, p := range pairs {
		name, err := textBytes(p[0])
		if err != nil {
			return nil, fmt.Errorf("decode name of header %d: %w", i, err)
		}
		value, err := textBytes(p[1])
		if err != nil {
			return nil, fmt.Errorf("decode value of header %q: %w", name, err)
		}
		headers[i] = Header{Name: string(name), Value: value}
	}
	return headers, nil
}

// HeaderObject gives headers as one JSON object of name to value, for SQL
// handlers and for people: of a repeated name the last value stands, and values
// that are no text are in base64.
func HeaderObject(headers []Header) map[string]string {
	object := make(map[string]string, len(headers))
	for _, h := range headers {
		object[textOrBase64([]byte(h.Name))] = textOrBase64(h.Value)
	}
	return object
}

func textOrBase64(b []byte) string {
	if isText(b) {
		return string(b)
	}
	return base64.StdEncoding.EncodeToString(b)
}

func isText(b []byte) bool {
	return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}

// jsonText keeps nil apart from empty: a header may have no value at all.
func jsonText(b []byte) any {
	switch {
	case b == nil:
		return nil
	case isText(b):
		return string(b)
	}
	return base64Text{b}
}

func textBytes(raw json.RawMessage) ([]byte, error) {
	if bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	if len(raw) > 0 && raw[0] == '{' {
		var v base64Text
		err := json.Unmarshal(raw, &v)
		return v.Base64, err
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return []byte(s), err
}
