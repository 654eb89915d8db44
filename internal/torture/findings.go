//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"sync"
)

// findings are the promises that were not kept.
type findings struct {
	mu         sync.Mutex
	kinds      []string
	lines      map[string][]string
	counts     map[string]int
	aggregates []string // whose story is worth keeping
}

// shown is how many findings of a kind are kept with their evidence.
const shown = 12

func (f *findings) add(kind, format string, args ...any) { f.addFor("", kind, format, args...) }

// addFor is add for a finding about an aggregate.
func (f *findings) addFor(aggregate, kind, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lines == nil {
		f.lines, f.counts = map[string][]string{}, map[string]int{}
	}
	if f.counts[kind] == 0 {
		f.kinds = append(f.kinds, kind)
	}
	f.counts[kind]++
	if len(f.lines[kind]) >= shown {
		return
	}
	f.lines[kind] = append(f.lines[kind], fmt.Sprintf(format, args...))
	if aggregate != "" && !slices.Contains(f.aggregates, aggregate) {
		f.aggregates = append(f.aggregates, aggregate)
	}
}

func (f *findings) any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.kinds) > 0
}

func (f *findings) write(out io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, kind := range f.kinds {
		fmt.Fprintf(out, "VIOLATION %s (%d)\n", kind, f.counts[kind])
		for _, line := range f.lines[kind] {
			fmt.Fprintf(out, "  %s\n", line)
		}
		if more := f.counts[kind] - len(f.lines[kind]); more > 0 {
			fmt.Fprintf(out, "  and %d more\n", more)
		}
	}
}
