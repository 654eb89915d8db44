package config

import (
	"fmt"
	"strings"
)

// Error is returned for a configuration that cannot be used: the fault is in
// what was written, not in the world, and to try again is of no use.
type Error struct {
	// Problems holds every one that was found, in the order of the layers.
	Problems []error
}

// Error has a line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems, so that errors.Is and errors.As find them.
func (e *Error) Unwrap() []error { return e.Problems }

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	Where string // "inboxd.yaml:7", "INBOXD_LANES_BATCH", "--database"; empty: in what the layers make together
	Key   string // the key it is about; empty: none
	Text  string // a sentence
}

// Error is the sentence, behind the place.
func (p *Problem) Error() string {
	if p.Where == "" {
		return p.Text
	}
	return p.Where + ": " + p.Text
}

// problems collects what is wrong while the layers are read.
type problems []error

func (ps *problems) add(where, key, format string, args ...any) {
	*ps = append(*ps, &Problem{Where: where, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (ps *problems) err() error {
	if len(*ps) == 0 {
		return nil
	}
	return &Error{Problems: *ps}
}
