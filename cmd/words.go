package cmd

import (
	"fmt"
	"strings"
	"time"
)

// brief writes a duration without units that say nothing: 1m for 1m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// thousands writes a number with commas: 12,345.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count writes a number with its noun: 1 line, 2,000 lines.
func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// agree chooses the verb that goes with a number.
func agree(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
