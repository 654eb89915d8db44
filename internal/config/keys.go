package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
)

const handlersKey = "handlers"

// key is one setting that has a value of its own; the handlers are none.
type key struct {
	path  string
	kind  kind
	index []int // of the field in Config
}

// kind is the type of a key's value.
type kind int

const (
	text kind = iota
	number
	duration
	list
	truth
	size
	fraction
)

func (k kind) String() string {
	return [...]string{
		"a text", "a whole number", "a duration with its unit, such as 200ms, 30s or 168h", "a list",
		"true or false", "a number of bytes, such as 64MiB", "a number, such as 1.5",
	}[k]
}

// knownKeys are the keys in the order of Config's fields; sections are what
// holds them ("lanes", "lanes.retry") and the handlers.
var knownKeys, sections = collectKeys()

// keysByPath finds a key.
var keysByPath = func() map[string]key {
	m := make(map[string]key, len(knownKeys))
	for _, k := range knownKeys {
		m[k.path] = k
	}
	return m
}()

func collectKeys() (keys []key, sections []string) {
	var walk func(t reflect.Type, prefix string, index []int)
	walk = func(t reflect.Type, prefix string, index []int) {
		for i := range t.NumField() {
			f := t.Field(i)
			name := f.Tag.Get("koanf")
			if name == "-" {
				continue
			}
			path, at := prefix+name, append(slices.Clone(index), i)
			switch f.Type.Kind() {
			case reflect.Struct:
				sections = append(sections, path)
				walk(f.Type, path+".", at)
			case reflect.Map:
				sections = append(sections, path)
			default:
				keys = append(keys, key{path: path, kind: kindOf(f.Type), index: at})
			}
		}
	}
	walk(reflect.TypeFor[Config](), "", nil)
	return keys, sections
}

func kindOf(t reflect.Type) kind {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return duration
	case reflect.TypeFor[int]():
		return number
	case reflect.TypeFor[[]string]():
		return list
	case reflect.TypeFor[bool]():
		return truth
	case reflect.TypeFor[Bytes]():
		return size
	case reflect.TypeFor[float64]():
		return fraction
	default:
		return text
	}
}

// value is the key's value in c: a string, an int, a time.Duration, a []string,
// a bool, Bytes or a float64.
func (k key) value(c *Config) any {
	return reflect.ValueOf(c).Elem().FieldByIndex(k.index).Interface()
}

// variable is the name of the key's environment variable.
func (k key) variable() string { return variableOf(k.path) }

func variableOf(path string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// nearestKey is the known key or section that path was most likely meant to
// be. A right name in a wrong section is near.
func nearestKey(path string) string {
	known := slices.Clone(sections)
	for _, k := range knownKeys {
		known = append(known, k.path)
	}
	_, name, _ := cutLast("."+path, ".")
	return closest(known, func(candidate string) int {
		_, last, _ := cutLast("."+candidate, ".")
		return min(distance(path, candidate), distance(name, last)+1)
	})
}

// nearest is the word among known that name was most likely meant to be.
func nearest(name string, known ...string) string {
	return closest(known, func(candidate string) int { return distance(name, candidate) })
}

func closest(known []string, far func(string) int) string {
	return slices.MinFunc(known, func(a, b string) int { return far(a) - far(b) })
}

// maxCompared bounds the work on a name that is not one.
const maxCompared = 200

func distance(a, b string) int {
	if len(a) > maxCompared {
		a = strings.ToValidUTF8(a[:maxCompared], "")
	}
	return levenshtein.ComputeDistance(strings.ToLower(a), strings.ToLower(b))
}

func isSection(path string) bool { return slices.Contains(sections, path) }
