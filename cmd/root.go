package cmd

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/config"
)

// commands makes every command of the root, in the order of its help. A new
// command's function is added here.
var commands = []func(*app) *cobra.Command{
	newServeCmd,
	newDevCmd,
	newMigrateCmd,
	newIngestCmd,
	newLanesCmd,
	newErrorsCmd,
	newEventsCmd,
	newQuarantineCmd,
	newAuditCmd,
	newSourcesCmd,
	newVerifyCmd,
	newDoctorCmd,
	newBenchCmd,
	newConfigCmd,
	newVersionCmd,
}

// Run runs one command line, without the program's name, and returns the exit
// code. The registry serves one run, which may add to it. The context's end is
// the request to stop. Environ is as os.Environ has it; PG* variables are read
// from the process's own environment by PostgreSQL's driver.
func Run(
	ctx context.Context, reg *handlers.Registry, args []string,
	stdin io.Reader, stdout, stderr io.Writer, environ []string,
) int {
	a := &app{reg: reg, stdin: stdin, stdout: stdout, stderr: stderr, environ: environ, output: formatTable}
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	e := classify(ctx, err)
	if !a.started && e.code == exitFailed { // cobra's own errors have no code
		e.code = exitWrongUse
	}
	a.explainDenied(ctx, e)
	report(stderr, a.failureFormat(args), e)
	return e.code
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "inboxd",
		Short:         "Per-aggregate ordered inbox for PostgreSQL and Kafka",
		Long:          "inboxd stores records from Kafka in PostgreSQL and runs a handler on each event:\nevery event takes effect exactly once, in order within its aggregate.",
		Version:       buildVersion().Version,
		Args:          knownCommand,
		RunE:          showHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.flags = cmd.Flags()
			return a.startLog()
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	a.addGlobalFlags(root.PersistentFlags())
	for _, make := range commands {
		root.AddCommand(make(a))
	}
	root.SetHelpCommand(newHelpCmd())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, sub := range root.Commands() {
		if sub.Name() == "completion" { // cobra shows help for a shell that it does not know
			sub.Args, sub.RunE = knownCommand, showHelp
		}
	}
	a.complete(root)
	a.noteStarts(root)
	return root
}

func (a *app) addGlobalFlags(fs *pflag.FlagSet) {
	fs.StringVar(&a.global.config, "config", "", "configuration `FILE` (default: INBOXD_CONFIG, then inboxd.yaml if there is one)")
	fs.String("database", "", "`URL` of the database, without a password")
	config.BindFlag(fs, "database", "database.url")
	fs.StringVar(&a.global.logLevel, "log-level", "", "log `LEVEL`: debug, info, warn or error (default: INBOXD_LOG_LEVEL, then info)")
	fs.StringVar(&a.global.logFormat, "log-format", "", "log `FORMAT`: auto, text or json (default: INBOXD_LOG_FORMAT, then auto: text on a terminal, json elsewhere)")
	fs.BoolVar(&a.global.dev, "dev", false, "use the development servers of inboxd dev")
	fs.StringVar(&a.global.dir, "dir", "", "`DIRECTORY` of the development servers (default: INBOXD_DEV_DIR, then one in the user's state directory)")
}

// noteStarts makes every command note that its own work has begun.
func (a *app) noteStarts(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.started = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		a.noteStarts(sub)
	}
}

// failureFormat is the format that a failure is reported in. When the flags
// were not understood, it is what they seem to ask for.
func (a *app) failureFormat(args []string) format {
	if a.started || a.output != formatTable {
		return a.output
	}
	return guessFormat(args)
}
