//go:build !race

package cmd_test

var buildFlags []string
