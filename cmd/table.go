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
	minFlexWidth  = 8
	columnGap     = 2
)

// grid is a table before it is written.
type grid struct {
	cells  [][]string // the heads first
	right  []bool     // the column holds numbers
	flex   []bool
	widths []int
}

// tableOf makes the lines of a table.
func tableOf[T any](columns []column[T], rows []T, colour bool) []byte {
	g := grid{right: make([]bool, len(columns)), flex: make([]bool, len(columns)), widths: make([]int, len(columns))}
	heads := make([]string, len(columns))
	for i, c := range columns {
		heads[i], g.flex[i] = strings.ToUpper(c.head), c.flex
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
	g.fit(maxTableWidth)
	var b bytes.Buffer
	for i, cells := range g.cells {
		line := g.line(cells)
		if i == 0 && colour {
			line = "\x1b[1m" + line + "\x1b[0m"
		}
		b.WriteString(line + "\n")
	}
	return b.Bytes()
}

func (g *grid) add(cells []string) {
	g.cells = append(g.cells, cells)
	for i, s := range cells {
		g.widths[i] = max(g.widths[i], runewidth.StringWidth(s))
	}
}

// fit narrows the widest flexible columns until the table has the width, or
// cannot be narrowed any more.
func (g *grid) fit(width int) {
	total := columnGap * (len(g.widths) - 1)
	for _, w := range g.widths {
		total += w
	}
	for ; total > width; total-- {
		widest := -1
		for i, w := range g.widths {
			least := max(minFlexWidth, runewidth.StringWidth(g.cells[0][i]))
			if g.flex[i] && w > least && (widest < 0 || w > g.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		g.widths[widest]--
	}
}

func (g *grid) line(cells []string) string {
	var b strings.Builder
	for i, s := range cells {
		if i > 0 {
			b.WriteString(strings.Repeat(" ", columnGap))
		}
		if runewidth.StringWidth(s) > g.widths[i] {
			s = runewidth.Truncate(s, g.widths[i], "…")
		}
		if g.right[i] {
			b.WriteString(runewidth.FillLeft(s, g.widths[i]))
		} else {
			b.WriteString(runewidth.FillRight(s, g.widths[i]))
		}
	}
	return strings.TrimRight(b.String(), " ")
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
