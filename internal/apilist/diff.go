package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// differences says in which lines the API is not as it was written down, and what
// to do; "" if it is. A line that went has a minus, one that came a plus.
func differences(kept, now map[string]string) string {
	var b strings.Builder
	gone := false
	names := slices.AppendSeq(slices.Collect(maps.Keys(kept)), maps.Keys(now))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, known := kept[name]; !known {
			fmt.Fprintf(&b, "package %s has no api/%s.txt\n", name, name)
			continue
		}
		before, after := lines(kept[name]), lines(now[name])
		if slices.Equal(before, after) {
			continue
		}
		fmt.Fprintf(&b, "package %s differs from api/%s.txt:\n", name, name)
		changed := append(without(before, after, "-"), without(after, before, "+")...)
		slices.SortStableFunc(changed, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
		for _, line := range changed {
			fmt.Fprintf(&b, "\t%s\n", line)
			gone = gone || strings.HasPrefix(line, "-")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	if gone {
		b.WriteString("Who uses what has a minus will have to change code. ")
	}
	b.WriteString("If all of it is meant, write it down with make api.")
	return b.String()
}

func lines(listing string) []string {
	return strings.Split(strings.TrimSuffix(listing, "\n"), "\n")
}

func without(list, others []string, mark string) []string {
	var rest []string
	for _, line := range list {
		if !slices.Contains(others, line) && line != "" {
			rest = append(rest, mark+" "+line)
		}
	}
	return rest
}
