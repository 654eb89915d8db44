// Package rawjson reads JSON without changing it: numbers keep their digits,
// strings are unescaped or refused but never repaired, and what is not looked at
// stays the text that it was.
//
// Everything but Valid takes values that are valid JSON; a caller asks Valid
// once, for the whole text.
package rawjson
