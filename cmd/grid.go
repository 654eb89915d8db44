package cmd

import (
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

const (
	minFlexWidth = 8
	// rowIndent is that of the lines of a row after the first.
	rowIndent = 2
)

// grid is a table before it is written.
type grid struct {
	cells   [][]string // the heads first
	right   []bool     // the column holds numbers
	flex    []bool
	spare   []bool
	natural []int // the widths that nothing has to be cut for
	widths  []int
	lines   [][]int // the columns on each line of a row
}

func newGrid(columns int) *grid {
	return &grid{
		right: make([]bool, columns), flex: make([]bool, columns), spare: make([]bool, columns),
		natural: make([]int, columns), widths: make([]int, columns),
	}
}

func (g *grid) add(cells []string) {
	g.cells = append(g.cells, cells)
	for i, s := range cells {
		g.natural[i] = max(g.natural[i], runewidth.StringWidth(s))
	}
}

// layOut makes the table fit the width: it narrows flexible columns; if that is
// not enough it leaves out spare ones; and if names are too long even so, which
// must not be cut, a row has several lines.
func (g *grid) layOut(width int) {
	every := make([]int, len(g.natural))
	for i := range every {
		every[i] = i
	}
	columns := slices.Clone(every)
	for {
		g.lines = [][]int{columns}
		if g.fit(columns, width) {
			return
		}
		last := len(columns) - 1
		for last >= 0 && !g.spare[columns[last]] {
			last--
		}
		if last < 0 {
			break
		}
		columns = slices.Delete(columns, last, last+1)
	}
	g.lines = g.split(every, width)
	for i, line := range g.lines {
		g.fit(line, width-g.indent(i))
	}
}

// fit narrows the widest flexible columns until these have the width together,
// and answers whether they have.
func (g *grid) fit(columns []int, width int) bool {
	total := columnGap * (len(columns) - 1)
	for _, i := range columns {
		g.widths[i] = g.natural[i]
		total += g.natural[i]
	}
	for ; total > width; total-- {
		widest := -1
		for _, i := range columns {
			if g.widths[i] > g.least(i) && (widest < 0 || g.widths[i] > g.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		g.widths[widest]--
	}
	return true
}

// least is how narrow a column may become.
func (g *grid) least(i int) int {
	if !g.flex[i] {
		return g.natural[i]
	}
	return min(g.natural[i], max(minFlexWidth, runewidth.StringWidth(g.cells[0][i])))
}

// split deals the columns to lines, as many to each as fit.
func (g *grid) split(columns []int, width int) [][]int {
	var lines [][]int
	room := -1
	for _, i := range columns {
		need := columnGap + g.least(i)
		if len(lines) == 0 || need > room {
			room = width - g.indent(len(lines)) + columnGap
			lines = append(lines, nil)
		}
		room -= need
		lines[len(lines)-1] = append(lines[len(lines)-1], i)
	}
	return lines
}

func (g *grid) indent(line int) int {
	if line == 0 {
		return 0
	}
	return rowIndent
}

// rowLines are the lines of one row.
func (g *grid) rowLines(cells []string) []string {
	lines := make([]string, len(g.lines))
	for k, columns := range g.lines {
		var b strings.Builder
		b.WriteString(strings.Repeat(" ", g.indent(k)))
		for n, i := range columns {
			if n > 0 {
				b.WriteString(strings.Repeat(" ", columnGap))
			}
			b.WriteString(g.padded(cells[i], i))
		}
		lines[k] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// padded is a cell in the width of its column.
func (g *grid) padded(s string, i int) string {
	if runewidth.StringWidth(s) > g.widths[i] {
		s = runewidth.Truncate(s, g.widths[i], "…")
	}
	if g.right[i] {
		return runewidth.FillLeft(s, g.widths[i])
	}
	return runewidth.FillRight(s, g.widths[i])
}
