package cmd

import (
	"bytes"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
)

const (
	maxTableRows  = 100
	maxTableWidth = 100
	columnGap     = 2
)

// tableOf makes the lines of a table.
func tableOf[T any](columns []column[T], rows []T, colour bool) []byte {
	g := newGrid(len(columns))
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i], g.flex[i], g.spare[i] = strings.ToUpper(c.head), c.flex, c.spare
	}
	g.add(heads)
	for _, row := range rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			v := c.cell(row)
			cells[i] = cellText(v)
			g.right[i] = g.right[i] || isNumber(v)
		}
		g.add(cells)
	}
	g.layOut(maxTableWidth)
	var b bytes.Buffer
	for i, cells := range g.cells {
		for _, line := range g.rowLines(cells) {
			if i == 0 && colour {
				line = "\x1b[1m" + line + "\x1b[0m"
			}
			b.WriteString(line + "\n")
		}
	}
	return b.Bytes()
}

// writeFields writes "name  value" lines, the values below each other, those
// of several lines indented.
func writeFields(b *bytes.Buffer, fields []field) {
	width := 0
	for _, f := range fields {
		width = max(width, runewidth.StringWidth(f.name))
	}
	for _, f := range fields {
		indent := strings.Repeat(" ", width+columnGap)
		text := cellText(f.value)
		if s, ok := f.value.(string); ok {
			text = strings.ReplaceAll(printableLines(s), "\n", "\n"+indent)
		}
		b.WriteString(strings.TrimRight(runewidth.FillRight(f.name, width+columnGap)+text, " ") + "\n")
	}
}

// cellText is a value as a table shows it. Nil, a nil pointer and a zero time
// are unknown: "-". A time is RFC 3339 in UTC, a list is joined by commas.
func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case string:
		return printable(v)
	case timestamp:
		return cellText(time.Time(v))
	case time.Time:
		if v.IsZero() {
			return "-"
		}
		return v.UTC().Format(time.RFC3339)
	case []string:
		return printable(strings.Join(v, ", "))
	}
	if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return "-"
		}
		return cellText(r.Elem().Interface())
	}
	return printable(fmt.Sprint(v))
}

func isNumber(v any) bool {
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Pointer && !r.IsNil() {
		r = r.Elem()
	}
	if _, named := v.(fmt.Stringer); named {
		return false
	}
	return r.IsValid() && (r.CanInt() || r.CanUint() || r.CanFloat())
}

// printable shows what a terminal would act on instead of showing it, and
// bytes that are no UTF-8, as escapes.
func printable(s string) string {
	clean := func(r rune) bool { return r != utf8.RuneError && (r == ' ' || unicode.IsPrint(r)) }
	if !strings.ContainsFunc(s, func(r rune) bool { return !clean(r) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if clean(r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}
