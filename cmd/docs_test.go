package cmd

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/handlers"
)

var (
	// spans are what a page shows as code: a line of a console, or between backticks.
	spans   = regexp.MustCompile("(?m)^\\$ (.*)$|`([^`\\n]+)`")
	comment = regexp.MustCompile(`\s# .*$`)
	verb    = regexp.MustCompile(`^[a-z][a-z-]+$`)
	program = regexp.MustCompile(`(?:^|[ |/])inboxd ([a-z-]+(?: .*)?)$`)
)

// TestDocumentedCommandsExist reads the pages for what is to be typed: each command
// and each flag there exists.
func TestDocumentedCommandsExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 5 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	found := 0
	for _, page := range append(pages, "../README.md") {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range spans.FindAllStringSubmatch(string(content), -1) {
			if words := commandIn(m[1] + m[2]); words != nil {
				found++
				documented(t, page, words)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d commands were found", found)
	}
}

// commandIn is the command line in a span, without the program's name; nil: it is
// none. In tables the name is left out.
func commandIn(span string) []string {
	span, _, _ = strings.Cut(comment.ReplaceAllString(span, ""), " | ")
	if m := program.FindStringSubmatch(span); m != nil {
		return strings.Fields(m[1])
	}
	words := strings.Fields(span)
	if len(words) < 2 {
		return nil
	}
	for _, make := range commands {
		if make(&app{}).Name() == words[0] {
			return words
		}
	}
	return nil
}

func documented(t *testing.T, page string, words []string) {
	t.Helper()
	root := newRoot(&app{reg: handlers.New(), stdout: io.Discard, stderr: io.Discard})
	line := strings.Join(words, " ")
	cmd, rest, err := root.Find(words)
	if err != nil || cmd == root {
		t.Errorf("%s: there is no command %s", page, line)
		return
	}
	for _, word := range rest {
		name, isFlag := strings.CutPrefix(word, "--")
		name = strings.TrimRight(strings.SplitN(name, "=", 2)[0], ",.;:)")
		switch {
		case word == "--":
			return
		case isFlag && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && name != "help":
			t.Errorf("%s: %s has no flag --%s: %s", page, cmd.CommandPath(), name, line)
		case !isFlag && cmd.HasSubCommands() && verb.MatchString(word):
			t.Errorf("%s: %s has no command %s: %s", page, cmd.CommandPath(), word, line)
		}
	}
}
