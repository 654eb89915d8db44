package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/internal/bench"
	"github.com/inboxd/inboxd/internal/postgres"
)

// benchFlags are those of the command.
type benchFlags struct {
	scenarios      []string
	rounds, events int
	useDatabase    bool
	strict         bool
	profiles       string
	length         time.Duration // of bench.Level
}

func newBenchCmd(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure inboxd against what its work costs at least",
		Long:  benchHelp(),
		Args:  exactArgs(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.bench(cmd.Context(), f) },
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.scenarios, "scenario", nil, "`SCENARIOS` to run, such as W1,W2 (default: all but "+bench.Level+")")
	fs.IntVar(&f.rounds, "rounds", 3, "how often each side is timed")
	fs.IntVar(&f.events, "events", 0, "`N` events a scenario instead of its own number; W4 and W8 get long with many")
	fs.DurationVar(&f.length, "for", bench.LevelDefault,
		"how long the scenario "+bench.Level+" runs, a `DURATION`; it fills up to 2 GB of disk a minute")
	fs.BoolVar(&f.useDatabase, "use-database", false, "run on the configured database instead of an embedded one, in schemas of its own")
	fs.BoolVar(&f.strict, "strict", false, "exit 1 when a goal is missed")
	fs.StringVar(&f.profiles, "cpu-profiles", "", "write CPU profiles of the timed runs to `DIRECTORY`")
	a.addOutputFlag(cmd)
	cmd.AddCommand(newBenchChildCmd(a))
	return cmd
}

func benchHelp() string {
	names, abouts := bench.Names()
	var b strings.Builder
	b.WriteString("Measure inboxd against what its work costs at least: the textbook loop, pgbench with the handler's\n" +
		"statement, COPY. Both sides run on the same server, one after the other, round after round.\n" +
		"Rates are medians of rounds, the ratio is the median of the rounds' ratios.\n\n")
	for i, name := range names {
		fmt.Fprintf(&b, "  %-5s %s\n", name, abouts[i])
	}
	b.WriteString("\nThe server is an embedded PostgreSQL with its default settings, made for the run and removed.\n" +
		"With --use-database it is the configured one: schemas with a random name are made in it and dropped;\n" +
		"nothing else is touched, but the server will be busy.\n\n" +
		"Exit 1 when an event was lost, doubled or out of order; a goal that is missed is no failure without --strict.")
	return b.String()
}

// newBenchChildCmd is how bench starts itself for processes of their own.
func newBenchChildCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "child", Short: "Run lanes as a process of bench", Hidden: true, Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return bench.Child(cmd.Context(), a.stdin, a.stdout) },
	}
}

func (a *app) bench(ctx context.Context, f benchFlags) error {
	if err := f.check(a); err != nil {
		return err
	}
	url, stop, err := a.benchDatabase(ctx, f.useDatabase)
	if err != nil {
		return err
	}
	defer stop()
	if err := a.sayBenchConditions(ctx, url); err != nil {
		return databaseFailure(err)
	}
	p := &progressLine{a: a, on: isTerminal(a.stderr)}
	results, err := bench.Run(ctx, bench.Options{
		URL: url, Scenarios: f.scenarios, Rounds: f.rounds, Events: f.events, For: f.length, Profiles: f.profiles,
		Child: benchChild, Progress: p.show, Remark: p.say,
	})
	p.clear()
	if len(results) > 0 || err == nil {
		err = errors.Join(err, benchListing(results).write(a))
	}
	if err != nil {
		return databaseFailure(err)
	}
	return benchVerdict(results, f.strict)
}

func (f benchFlags) check(a *app) error {
	if err := (bench.Options{Scenarios: f.scenarios}).Check(); err != nil {
		return wrongUse("%w", err)
	}
	if f.rounds < 1 {
		return wrongUse("--rounds is %d, but must be at least 1", f.rounds)
	}
	if f.events < 0 {
		return wrongUse("--events is %d, but must not be negative", f.events)
	}
	if err := f.checkLength(a); err != nil {
		return err
	}
	if !f.useDatabase && (a.flags.Changed("database") || a.global.dev) {
		return wrongUse("bench runs on an embedded PostgreSQL of its own, and a database was named").
			withHint("add --use-database to run on that database, in schemas that are dropped afterwards")
	}
	return nil
}

// checkLength refuses a length that no scenario would keep to.
func (f benchFlags) checkLength(a *app) error {
	if !a.flags.Changed("for") {
		return nil
	}
	isLevel := func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), bench.Level) }
	if !slices.ContainsFunc(f.scenarios, isLevel) {
		return wrongUse("--for is how long the scenario %s runs, which was not named", bench.Level).
			withHint("add --scenario %s", bench.Level)
	}
	if f.length < bench.LevelMinimum {
		return wrongUse("--for is %s, but must be at least %s", f.length, bench.LevelMinimum)
	}
	return nil
}

// benchDatabase is the configured database or an embedded one.
func (a *app) benchDatabase(ctx context.Context, configured bool) (url string, stop func(), err error) {
	if configured {
		db, err := a.dialDatabase(ctx)
		if err != nil {
			return "", nil, err
		}
		return db.config.Database.Direct(), db.close, nil
	}
	server, err := postgres.Start(ctx, postgres.Config{Log: a.log})
	if err != nil {
		return "", nil, failed("%w", err).withHint("name a server to use: inboxd bench --database URL --use-database")
	}
	return server.URL(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = server.Stop(ctx) // its directory is temporary; a later start removes what is left
	}, nil
}

func (a *app) sayBenchConditions(ctx context.Context, url string) error {
	server, err := bench.Server(ctx, url)
	if err != nil {
		return err
	}
	v := buildVersion()
	a.say("inboxd %s, %s, %s, %d cores", v.Version, v.Go, v.Platform, runtime.NumCPU())
	a.say("%s", server)
	return nil
}

// benchChild is the command line of a child: this program again.
func benchChild() *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.Command(program, "bench", "child")
}

func benchListing(results []bench.Result) listing[bench.Result] {
	return listing[bench.Result]{
		rows: each(results), noun: "results",
		columns: []column[bench.Result]{
			{head: "scenario", cell: func(r bench.Result) any { return r.Scenario }},
			{head: "events", cell: func(r bench.Result) any { return r.Events }},
			{head: "lanes", cell: func(r bench.Result) any { return r.Aggregates }},
			{head: "batch", cell: func(r bench.Result) any { return r.Batch }},
			{head: "rate/s", cell: func(r bench.Result) any { return r.EventsPerSecond }},
			{head: "reference", cell: func(r bench.Result) any { return r.Reference }},
			{head: "its rate", cell: func(r bench.Result) any { return r.ReferencePerSecond }},
			{head: "ratio", cell: func(r bench.Result) any { return r.RatioText() }},
			{head: "goal", cell: func(r bench.Result) any { return r.GoalText() }},
			{head: "met", cell: func(r bench.Result) any { return map[bool]string{true: "yes", false: "no"}[r.Met] }},
			{head: "faults", cell: func(r bench.Result) any { return r.Violations }},
		},
	}
}

// benchVerdict is what the results mean for the exit code.
func benchVerdict(results []bench.Result, strict bool) error {
	var wrong, missed []string
	for _, r := range results {
		if r.Violations > 0 {
			wrong = append(wrong, r.Scenario)
		}
		if !r.Met {
			missed = append(missed, r.Scenario)
		}
	}
	switch {
	case len(wrong) > 0:
		return failed("events were lost, doubled or out of order in %s", strings.Join(wrong, ", "))
	case strict && len(missed) > 0:
		return failed("goals are missed: %s", strings.Join(missed, ", "))
	}
	return nil
}

// progressLine is a line on a terminal that says what is done now.
type progressLine struct {
	a  *app
	on bool
}

func (p *progressLine) show(doing string) {
	if p.on {
		_, _ = fmt.Fprintf(p.a.stderr, "\r\x1b[K%s", doing) // it is for people only
	}
}

func (p *progressLine) clear() { p.show("") }

// say writes a line above it.
func (p *progressLine) say(text string) {
	p.clear()
	p.a.say("%s", text)
}
