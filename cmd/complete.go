package cmd

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/dev"
)

const (
	// completionLimit is how long a shell waits for words from the database.
	completionLimit = 2 * time.Second
	// maxWords is how many words of one kind a shell gets.
	maxWords = 50
)

// find looks for words that begin so, for a command with its arguments up to
// there. A word may have a description after a tab.
type find func(ctx context.Context, db *database, args []string, begun string) ([]string, error)

// complete completes the arguments and flags of a command and of those below it,
// by the words that their help has for them: AGGREGATE, FINGERPRINT and so on.
// What has completions of its own keeps them.
func (a *app) complete(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if _, done := cmd.GetFlagCompletionFunc(f.Name); done {
			return
		}
		word, _ := pflag.UnquoteUsage(f)
		if c := a.completionOf(word, f); c != nil {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, c) // the flag exists
		}
	})
	if cmd.Runnable() && !cmd.HasSubCommands() && cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = a.completeArgs(cmd)
	}
	for _, sub := range cmd.Commands() {
		a.complete(sub)
	}
}

// completionOf is how a flag's value is completed; nil: as a file.
func (a *app) completionOf(word string, f *pflag.Flag) cobra.CompletionFunc {
	fixed := func(words ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
	}
	switch {
	case f.Name == "output":
		return fixed(string(formatTable), string(formatJSON), string(formatJSONL))
	case f.Name == "log-level":
		return fixed("debug", "info", "warn", "error")
	case f.Name == "log-format":
		return fixed("auto", "text", "json")
	case f.Name == "config":
		return cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	case f.Name == "dir":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	case word == "FILE":
		return nil
	case f.Name == "action":
		return fixed("retry", "skip", "replay", "pause", "resume", "edit", "revert", "requeue", "discard", "reset", "refused",
			"breaker-open", "breaker-close")
	case f.Name == "reason-code":
		return a.completion(findReasons)
	case f.Name == "event":
		return a.completion(findHead)
	}
	switch word {
	case "AGGREGATE":
		return a.completion(findAggregates)
	case "FINGERPRINT":
		return a.completion(findErrors)
	case "TYPE":
		return a.completion(findTypes, a.knownTypes)
	case "TOPIC":
		return a.completion(findTopics, knownTopics)
	case "EVENT":
		return a.completion(findProcessed)
	}
	return cobra.NoFileCompletions
}

// completeArgs completes what the usage line of a command names.
func (a *app) completeArgs(cmd *cobra.Command) cobra.CompletionFunc {
	switch _, usage, _ := strings.Cut(cmd.Use, " "); {
	case strings.Contains(usage, "AGGREGATE…"):
		return a.completion(findAggregates)
	case strings.HasPrefix(strings.Trim(usage, "["), "AGGREGATE"):
		return a.completion(onlyFirst(findAggregates))
	case strings.HasPrefix(usage, "ID") && cmd.HasParent() && cmd.Parent().Name() == "events":
		return a.completion(onlyFirst(findEvents))
	case strings.Contains(usage, "FILE"):
		return nil
	}
	return cobra.NoFileCompletions
}

// onlyFirst completes one argument and no more.
func onlyFirst(f find) find {
	return func(ctx context.Context, db *database, args []string, begun string) ([]string, error) {
		if len(args) > 0 {
			return nil, nil
		}
		return f(ctx, db, args, begun)
	}
}

// completion completes by words of the configuration, which need no database, and
// by those that f finds.
func (a *app) completion(f find, known ...func(*config.Config) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		var words []string
		a.flags = cmd.Flags()
		if c, err := a.config(); err == nil {
			for _, k := range known {
				words = append(words, k(c)...)
			}
		}
		words = append(words, a.lookUp(cmd, func(ctx context.Context, db *database) ([]string, error) { return f(ctx, db, args, begun) })...)
		seen := map[string]bool{}
		words = slices.DeleteFunc(words, func(w string) bool {
			word, _, _ := strings.Cut(w, "\t")
			again := seen[word]
			seen[word] = true
			return again || !strings.HasPrefix(word, begun) || slices.Contains(args, word) || strings.ContainsFunc(word, unicode.IsControl)
		})
		return words[:min(len(words), maxWords)], cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// lookUp looks words up for a shell. Whatever goes wrong, it has none: a person
// who presses a key wants no error, and starts no server.
func (a *app) lookUp(cmd *cobra.Command, f func(context.Context, *database) ([]string, error)) []string {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionLimit)
	defer cancel()
	a.flags = cmd.Flags()
	if a.startLog() != nil {
		return nil
	}
	if a.global.dev {
		if dir, err := a.devDirectory(); err != nil || !dev.Runs(ctx, dir) {
			return nil
		}
	}
	db, err := a.openDatabase(ctx)
	if err != nil {
		return nil
	}
	defer db.close()
	words, err := f(ctx, db)
	if err != nil {
		return nil
	}
	return words
}

// completeTypes has a flag's values completed by event types.
func (a *app) completeTypes(cmd *cobra.Command, flag string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, a.completion(findTypes, a.knownTypes)) // the flag exists
}

// completeErrors has a flag's values completed by fingerprints.
func (a *app) completeErrors(cmd *cobra.Command, flag string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, a.completion(findErrors)) // the flag exists
}
