package cmd

import "fmt"

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
