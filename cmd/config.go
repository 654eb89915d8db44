package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/internal/service"
)

func newConfigCmd(a *app) *cobra.Command {
	return noun("config", "Print and check the configuration", newConfigPrintCmd(a), newConfigValidateCmd(a))
}

func newConfigPrintCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the configuration in effect, passwords hidden",
		Long: "Print the configuration that flags, environment, file and defaults make together, passwords hidden.\n" +
			"It is YAML that can be used as a configuration file, or JSON with -o json.",
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			c, err := a.config()
			if err != nil {
				return err
			}
			if a.output == formatTable {
				return wroteStdout(c.Print(a.stdout))
			}
			return a.showJSON(c)
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

func newConfigValidateCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration, and report all its problems",
		Long: "Check the configuration without connecting to anything. Every problem is reported on stderr,\n" +
			"and the exit code is 2 if there is one.",
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			c, err := a.config()
			if err != nil {
				return err
			}
			if err := a.registerConfigured(c); err != nil {
				return err
			}
			if _, err := service.Decoder(c); err != nil {
				return wrongUse("%w", err)
			}
			return a.showValid(c.File)
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) showValid(file string) error {
	if a.output == formatTable {
		from := "the configuration is valid (no file: defaults and environment)"
		if file != "" {
			from = fmt.Sprintf("%s is valid", file)
		}
		_, err := fmt.Fprintln(a.stdout, from)
		return wroteStdout(err)
	}
	type valid struct {
		Valid bool    `json:"valid"`
		File  *string `json:"file"`
	}
	v := valid{Valid: true}
	if file != "" {
		v.File = &file
	}
	return a.showJSON(v)
}
