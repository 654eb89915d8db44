package cmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noun makes a command that only holds others.
func noun(name, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: knownCommand, RunE: showHelp}
	cmd.AddCommand(verbs...)
	return cmd
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// knownCommand refuses what cobra took for an argument because no command of
// the noun has that name.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	e := wrongUse("there is no command %q of %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		for i, name := range near {
			near[i] = cmd.CommandPath() + " " + name
		}
		return e.withHint("did you mean: %s", strings.Join(near, ", or: "))
	}
	return e.withHint("see: %s --help", cmd.CommandPath())
}

// exactArgs takes one argument for each name, and names those that are missing.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return wrongUse("%s is missing its %s", cmd.CommandPath(), strings.Join(names[len(args):], " and ")).
				withHint("see: %s --help", cmd.CommandPath())
		case len(args) > len(names):
			return tooMany(cmd, args[len(names)], len(names))
		}
		return nil
	}
}

func tooMany(cmd *cobra.Command, extra string, most int) error {
	takes := "no argument"
	switch {
	case most == 1:
		takes = "one argument"
	case most > 1:
		takes = fmt.Sprintf("%d arguments", most)
	}
	return wrongUse("%s takes %s, so %q is one too many", cmd.CommandPath(), takes, extra).
		withHint("see: %s --help", cmd.CommandPath())
}

// flagError is cobra's error for a flag, with the nearest flag to one that
// does not exist.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return knownCommand(cmd, args) // a command that does not exist has no flags either
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return wrongUse("%w", err).withHint("see: %s --help", cmd.CommandPath())
	}
	e := wrongUse("%w", err)
	if short := unknown.GetSpecifiedShortnames(); short != "" && strings.Contains(cmd.Use, " ") {
		return e.withHint("a name that begins with a dash stands behind --, at the end: %s … -- -%s", cmd.CommandPath(), short)
	}
	if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
		return e.withHint("did you mean --%s?", near)
	}
	return e.withHint("see: %s --help", cmd.CommandPath())
}

// nearestFlag is the flag of cmd that name was probably meant to be; empty:
// none is near.
func nearestFlag(cmd *cobra.Command, name string) string {
	best, least := "", 3
	if len(name) < 3 { // a shorthand is near to everything
		return ""
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := levenshtein.ComputeDistance(name, f.Name); !f.Hidden && d < least {
			best, least = f.Name, d
		}
	})
	return best
}

// newHelpCmd is cobra's help command, except that a command that does not
// exist is a failure.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return wrongUse("%w", err)
			}
			if len(rest) > 0 {
				return knownCommand(about, rest)
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
