package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/mattn/go-runewidth"

	"github.com/inboxd/inboxd/internal/config"
)

type row struct {
	ID    string    `json:"id"`
	N     *int      `json:"n"`
	At    timestamp `json:"at"`
	Error string    `json:"error"`
}

var rowColumns = []column[row]{
	{head: "id", cell: func(r row) any { return r.ID }},
	{head: "n", cell: func(r row) any { return r.N }},
	{head: "at", cell: func(r row) any { return r.At }},
	{head: "error", cell: func(r row) any { return r.Error }, flex: true},
}

func rowsOf(n int) []row {
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{ID: fmt.Sprintf("order-%d", i)}
	}
	return rows
}

// written is what a listing of rows writes.
func written(t *testing.T, f format, rows []row) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, output: f}
	if err := (listing[row]{rows: each(rows), columns: rowColumns, noun: "lanes"}).write(a); err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String()
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	seven, at := 7, timestamp(time.Date(2026, 1, 31, 13, 0, 0, 5e8, time.FixedZone("", 3600)))
	out, _ := written(t, formatTable, []row{{"a", &seven, at, "first\nsecond \x1b[31mred"}, {"世界", nil, timestamp{}, ""}})
	expect(t, out, ""+
		"ID    N  AT                    ERROR\n"+
		"a     7  2026-01-31T12:00:00Z  first\\nsecond \\x1b[31mred\n"+
		"世界  -  -\n")
}

func TestTableFitsItsWidth(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 60)
	out, _ := written(t, formatTable, []row{{ID: strings.Repeat("i", 40), Error: long}, {ID: "b", Error: "short"}})
	for line := range strings.Lines(out) {
		if w := runewidth.StringWidth(strings.TrimRight(line, "\n")); w > maxTableWidth {
			t.Errorf("%d columns: %s", w, line)
		}
	}
	if !strings.Contains(out, strings.Repeat("i", 40)) || !strings.Contains(out, "…") {
		t.Errorf("the id was cut, or the error was not:\n%s", out)
	}
	out, _ = written(t, formatTable, []row{{ID: strings.Repeat("i", 200), Error: long}})
	if !strings.Contains(out, strings.Repeat("i", 200)) {
		t.Errorf("an id was cut:\n%s", out)
	}
}

func TestTableStopsAndSaysSo(t *testing.T) {
	t.Parallel()
	out, errs := written(t, formatTable, rowsOf(103))
	expect(t, fmt.Sprint(strings.Count(out, "\n")), "101")
	expect(t, errs, "3 more lanes; -o json shows all\n")
	out, errs = written(t, formatTable, rowsOf(100))
	expect(t, fmt.Sprint(strings.Count(out, "\n")), "101")
	expect(t, errs, "")
	out, errs = written(t, formatTable, nil)
	expect(t, out, "")
	expect(t, errs, "no lanes\n")
}

func TestJSONIsComplete(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 103} {
		out, errs := written(t, formatJSON, rowsOf(n))
		var rows []any
		if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != n {
			t.Errorf("%d of %d rows: %v", len(rows), n, err)
		}
		expect(t, errs, "")
		out, _ = written(t, formatJSONL, rowsOf(n))
		expect(t, fmt.Sprint(strings.Count(out, "\n")), fmt.Sprint(n))
	}
	out, _ := written(t, formatJSON, nil)
	expect(t, out, "[]\n")
	out, _ = written(t, formatJSON, []row{{ID: "<a>"}, {ID: "b", At: timestamp(time.Date(2026, 1, 31, 13, 0, 0, 5e8, time.FixedZone("", 3600)))}})
	expect(t, out, `[{"id":"<a>","n":null,"at":null,"error":""},
 {"id":"b","n":null,"at":"2026-01-31T12:00:00.5Z","error":""}]
`)
}

func TestErrorAmongTheRows(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection lost")
	for _, f := range []format{formatTable, formatJSON, formatJSONL} {
		var out bytes.Buffer
		rows := func(yield func(row, error) bool) { _ = yield(row{ID: "a"}, nil) && yield(row{}, lost) }
		err := listing[row]{rows: rows, columns: rowColumns}.write(&app{stdout: &out, stderr: &out, output: f})
		if !errors.Is(err, lost) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stdout: &out, output: formatTable}
	fields := []field{{"id", "a"}, {"since", time.Time{}}, {"payload", "{\n\t\"a\": 1\n}"}, {"types", []string{"A", "B"}}}
	if err := a.show(nil, fields, func(b *bytes.Buffer) { b.WriteString("\nmore\n") }); err != nil {
		t.Fatal(err)
	}
	expect(t, out.String(), "id       a\nsince    -\npayload  {\n           \"a\": 1\n         }\ntypes    A, B\n\nmore\n")
}

func TestHeadsAreBoldOnlyInColour(t *testing.T) {
	t.Parallel()
	if out := tableOf(rowColumns, rowsOf(1), true); !bytes.HasPrefix(out, []byte("\x1b[1mID")) {
		t.Errorf("%q", out)
	}
	if out := tableOf(rowColumns, rowsOf(1), false); bytes.ContainsRune(out, '\x1b') {
		t.Errorf("%q", out)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tc := range []struct {
		ctx  context.Context
		err  error
		code int
	}{
		{t.Context(), errors.New("x"), exitFailed},
		{t.Context(), failed("x"), exitFailed},
		{t.Context(), notFound("x"), exitNotFound},
		{t.Context(), fmt.Errorf("wrapped: %w", refused("x")), exitRefused},
		{t.Context(), unreachable("x"), exitUnreachable},
		{t.Context(), doneInPart("x"), exitInPart},
		{t.Context(), fmt.Errorf("wrapped: %w", &config.Error{Problems: []error{errors.New("x")}}), exitWrongUse},
		{t.Context(), &pgconn.PgError{Code: "57P03"}, exitUnreachable},
		{t.Context(), &pgconn.PgError{Code: "42601"}, exitFailed},
		{t.Context(), fmt.Errorf("connect: %w", &pgconn.ConnectError{}), exitUnreachable},
		{ended, context.Canceled, exitFailed},
	} {
		if e := classify(tc.ctx, tc.err); e.code != tc.code {
			t.Errorf("%#v: %d, want %d", tc.err, e.code, tc.code)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	e := refused("lane %q\nmoved \x1b[2J", "a").withHint("try again")
	for f, want := range map[format]string{
		formatTable: "inboxd: lane \"a\"\nmoved \\x1b[2J\nhint: try again\n",
		formatJSON:  `{"error":{"message":"lane \"a\"\nmoved \u001b[2J","hint":"try again"}}` + "\n",
	} {
		var b bytes.Buffer
		report(&b, f, e)
		expect(t, b.String(), want)
	}
	var b bytes.Buffer
	report(&b, formatJSONL, failed("x"))
	expect(t, b.String(), `{"error":{"message":"x","hint":null}}`+"\n")
}
