package cmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// format is how a command writes its data.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
	formatJSONL format = "jsonl"
)

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "FORMAT" }

// Set makes it a flag's value.
func (f *format) Set(s string) error {
	switch format(s) {
	case formatTable, formatJSON, formatJSONL:
		*f = format(s)
		return nil
	}
	return errors.New("it must be table, json or jsonl")
}

// addOutputFlag gives -o to a command that lists or shows.
func (a *app) addOutputFlag(cmd *cobra.Command) {
	cmd.Flags().VarP(&a.output, "output", "o", "table, json or jsonl")
}

// guessFormat looks for -o in a command line that was not understood.
func guessFormat(args []string) format {
	f := formatTable
	for i, arg := range args {
		value := ""
		switch name, inline, _ := strings.Cut(arg, "="); {
		case arg == "--":
			return f
		case name == "-o" || name == "--output":
			if value = inline; value == "" && i+1 < len(args) {
				value = args[i+1]
			}
		case strings.HasPrefix(arg, "-o"):
			value = strings.TrimPrefix(arg, "-o")
		}
		_ = f.Set(value) // what is no format changes nothing
	}
	return f
}

// listing is what a command lists.
type listing[T any] struct {
	rows    iter.Seq2[T, error] // T's JSON is that of the contract
	columns []column[T]
	noun    string // plural, for a table that has no or not all rows: "lanes"
}

// column is one column of a table.
type column[T any] struct {
	head string
	cell func(T) any // see cellText for what it may return
	flex bool        // it may be cut to make a row fit; names that are typed again must not be
	// spare: it is left out of a table that would not fit otherwise.
	spare bool
}

// each gives the rows of a slice.
func each[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// write writes the rows in the format that was asked for. JSON is complete and
// written as it comes; a table stops after maxTableRows and says on stderr how
// many more there are.
func (l listing[T]) write(a *app) error {
	switch a.output {
	case formatJSON:
		return l.writeJSON(a, "[", ",\n ", "]\n")
	case formatJSONL:
		return l.writeJSON(a, "", "\n", "\n")
	default:
		return l.writeTable(a)
	}
}

func (l listing[T]) writeJSON(a *app, open, between, end string) error {
	w := bufio.NewWriter(a.stdout) // it keeps its first error until Flush
	_, _ = w.WriteString(open)
	n := 0
	for row, err := range l.rows {
		if err != nil {
			_ = w.Flush() // the rows before it; err is what matters
			return err
		}
		b, err := encode(row, "")
		if err != nil {
			return err
		}
		if n++; n > 1 {
			_, _ = w.WriteString(between)
		}
		_, _ = w.Write(b)
	}
	if n > 0 || a.output == formatJSON {
		_, _ = w.WriteString(end)
	}
	return wroteStdout(w.Flush())
}

func (l listing[T]) writeTable(a *app) error {
	var shown []T
	more := 0
	for row, err := range l.rows {
		switch {
		case err != nil:
			return err
		case len(shown) < maxTableRows:
			shown = append(shown, row)
		default:
			more++
		}
	}
	if len(shown) == 0 {
		a.say("no %s", l.noun)
		return nil
	}
	_, err := a.stdout.Write(tableOf(l.columns, shown, a.colourful(a.stdout)))
	if more > 0 {
		a.say("%d more %s; -o json shows all", more, l.noun)
	}
	return wroteStdout(err)
}

// field is one line of what a command shows of one thing.
type field struct {
	name  string
	value any // see cellText
}

// show writes one thing: value in the JSON formats, fields in a table.
// Then more, if it is not nil, writes what follows the fields of a table.
func (a *app) show(value any, fields []field, more func(*bytes.Buffer)) error {
	if a.output != formatTable {
		return a.showJSON(value)
	}
	var b bytes.Buffer
	writeFields(&b, fields)
	if more != nil {
		more(&b)
	}
	_, err := a.stdout.Write(b.Bytes())
	return wroteStdout(err)
}

func (a *app) showJSON(value any) error {
	indent := "  "
	if a.output == formatJSONL {
		indent = ""
	}
	b, err := encode(value, indent)
	if err != nil {
		return err
	}
	_, err = a.stdout.Write(append(b, '\n'))
	return wroteStdout(err)
}

// encode is v in JSON without a newline at the end, "<" as it is.
func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

func wroteStdout(err error) error {
	if err != nil {
		return failed("write to stdout: %w", err)
	}
	return nil
}

// timestamp is a time as the outputs have it: RFC 3339 in UTC; zero: null.
type timestamp time.Time

// MarshalJSON writes the time, or null for the zero time.
func (t timestamp) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return time.Time(t).UTC().MarshalJSON()
}
