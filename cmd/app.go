package cmd

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/handlers/webhook"
	"github.com/inboxd/inboxd/internal/config"
)

// app is what the commands of one run share.
type app struct {
	reg            *handlers.Registry
	hooks          []*webhook.Hook // of the configuration, once they are registered
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string

	flags  *pflag.FlagSet // the flags of the command that runs, the root's included
	global globalFlags
	output format

	log     *slog.Logger
	started bool // a command's own work has begun, so that a failure is no wrong use
}

// globalFlags are the root's.
type globalFlags struct {
	config    string
	logLevel  string
	logFormat string
	dev       bool
	dir       string
}

// config loads the configuration as the flags of the command say.
func (a *app) config() (*config.Config, error) {
	return config.Load(config.Options{File: a.global.config, Environ: a.environ, Flags: a.flags})
}

// getenv is the value of an environment variable; empty: it is not set.
func (a *app) getenv(name string) string {
	for _, entry := range slices.Backward(a.environ) {
		if n, v, _ := strings.Cut(entry, "="); n == name {
			return v
		}
	}
	return ""
}

// say writes a line for people to stderr.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.stderr, format+"\n", args...) // there is nowhere else to say it
}
