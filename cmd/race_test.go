//go:build race

package cmd_test

// buildFlags build a program as the tests were built, so that what was compiled
// for them is used again.
var buildFlags = []string{"-race"}
