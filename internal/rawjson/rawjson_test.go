package rawjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/inboxd/inboxd/internal/rawjson"
)

func valid(t *testing.T, text string) rawjson.Value {
	t.Helper()
	v, ok := rawjson.Valid([]byte(text))
	if !ok {
		t.Fatalf("%q is no JSON", text)
	}
	return v
}

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"a"`: "a", ` "" `: "", `1.0`: "1.0", `-0`: "-0", `true`: "true",
		`"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\u0000"`: "\"\\/\b\f\n\r\té😀\x00",
		`12345678901234567890123456789`:              "12345678901234567890123456789",
	} {
		if got, ok := valid(t, text).Text(); !ok || got != want {
			t.Errorf("%s: %q, %v", text, got, ok)
		}
	}
	for _, text := range []string{`null`, `{}`, `[]`, `"\ud83d"`, `"\ude00x"`, `"\ud83d\u0041"`, "\"\xff\""} {
		if got, ok := valid(t, text).Text(); ok {
			t.Errorf("%s has the text %q", text, got)
		}
	}
	if _, ok := (rawjson.Value)(nil).Text(); ok {
		t.Error("nothing has a text")
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	m := valid(t, ` { "a" : 1 , "b":{"a":[2,{"x":"}"}]}, "\u0061":3, "c":null, "\ud800":4 } `).Members()
	var names []string
	for _, one := range m {
		names = append(names, one.Name)
	}
	if got := strings.Join(names, " "); got != `b a c "\ud800"` {
		t.Errorf("names %s", got)
	}
	if got := string(m.Get("a")); got != "3" {
		t.Errorf("a is %s: the last one counts", got)
	}
	if got := string(m.Get("b")); got != `{"a":[2,{"x":"}"}]}` {
		t.Errorf("b is %s", got)
	}
	if !m.Get("c").Missing() || !m.Get("d").Missing() || m.Get("a").Missing() {
		t.Error("missing is null or not there")
	}
	if valid(t, `[{}]`).Members() != nil || valid(t, `"{}"`).Members() != nil {
		t.Error("members of what is no object")
	}
}

func TestManyMembersTakeLinearTime(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("{")
	for i := range 50_000 {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString(`"` + strings.Repeat("k", i%7) + string(rune('a'+i%26)) + `":1`)
	}
	b.WriteString("}")
	if got := len(valid(t, b.String()).Members()); got != 182 {
		t.Errorf("%d members", got)
	}
}

func TestItems(t *testing.T) {
	t.Parallel()
	items := valid(t, ` [ 1 , [2,3] , {"a":4} , "]" ] `).Items()
	if got := string(bytes.Join([][]byte{items[0], items[1], items[2], items[3]}, []byte(" "))); len(items) != 4 || got != `1 [2,3] {"a":4} "]"` {
		t.Errorf("items %s", got)
	}
	if valid(t, `[]`).Items() != nil || valid(t, `{}`).Items() != nil {
		t.Error("items of nothing")
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		` { "b" : 1.0 , "a" : [ true , null , "\u0061\/<" ] , "b" : 2e3 } `: `{"a":[true,null,"a/<"],"b":2e3}`,
		`"\ud800"`:                `"\ud800"`,
		`{}`:                      `{}`,
		` [ ] `:                   `[]`,
		`99999999999999999999.10`: `99999999999999999999.10`,
	} {
		if got := string(valid(t, text).Canonical()); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestValid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", "{} {}", "\xef\xbb\xbf{}", "nul", strings.Repeat("[", 100_000)} {
		if _, ok := rawjson.Valid([]byte(text)); ok {
			t.Errorf("%.20q is taken for JSON", text)
		}
	}
}

// FuzzValue holds what is read against encoding/json.
func FuzzValue(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		v, ok := rawjson.Valid(text)
		if !ok {
			return
		}
		canonical := v.Canonical()
		again, ok := rawjson.Valid(canonical)
		if !ok {
			t.Fatalf("%q became %q, which is no JSON", text, canonical)
		}
		if twice := again.Canonical(); !bytes.Equal(canonical, twice) {
			t.Fatalf("%q and %q are both canonical", canonical, twice)
		}
		if !utf8.Valid(text) || strings.Contains(strings.ToLower(string(text)), `\ud`) {
			return // encoding/json replaces characters
		}
		if want, got := decode(t, text), decode(t, canonical); want != got {
			t.Fatalf("%q is %s, but its canonical form is %s", text, want, got)
		}
	})
}

func decode(t *testing.T, text []byte) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
