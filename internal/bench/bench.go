package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Options say what Run measures.
type Options struct {
	// URL is the database. Schemas with a random name are made in it and
	// dropped again; nothing else is touched.
	URL string
	// Scenarios are names as in Names, in any case. Empty: all but Level.
	Scenarios []string
	// Rounds is how often each side is timed. Default 3.
	Rounds int
	// Events is the number of events of a scenario. 0: each one's own number.
	Events int
	// For is how long Level runs. Default LevelDefault.
	For time.Duration
	// Child is the command that runs Child in a process of its own. Required
	// for W8 and W9.
	Child func() *exec.Cmd
	// Progress hears what is done now. Nil: nobody does.
	Progress func(doing string)
	// Remark hears what a reader of a result should know, and the samples of Level.
	// Nil: nobody.
	Remark func(text string)
	// Profiles is a directory that takes a CPU profile of this process for each
	// timed run of lanes. Empty: none are made.
	Profiles string
}

// scenario is one of W1 to W10, or Level.
type scenario struct {
	name string
	// about says in a few words what is measured.
	about string
	run   func(ctx context.Context, b *bench) ([]Result, error)
}

var scenarios = []scenario{
	{"W1", "many lanes", manyLanes},
	{"W2", "one hot lane", hotLane},
	{"W3", "a transaction an event", transactions},
	{"W4", "growth", growth},
	{"W5", "ingest from Kafka", ingest},
	{"W6", "latency", latency},
	{"W7", "WAL an event", writeAhead},
	{"W8", "memory", memory},
	{"W9", "several processes", processes},
	{"W10", "a slow handler", slowHandler},
	{Level, "rate and table sizes of a long run at full rate; runs only when it is named", level},
}

// Names lists the scenarios, each with what it measures.
func Names() (names, abouts []string) {
	for _, s := range scenarios {
		names, abouts = append(names, s.name), append(abouts, s.about)
	}
	return names, abouts
}

// bench is what the scenarios of one run share.
type bench struct {
	Options
	schema string // what the names of all schemas begin with
	stages int
	doing  string // the scenario that runs
}

// Run runs scenarios. Its results are complete as far as it came: an error is
// about the scenario that follows the last of them.
func Run(ctx context.Context, o Options) ([]Result, error) {
	b := &bench{Options: o, schema: "inboxd_bench_" + strings.ToLower(rand.Text()[:8])}
	if b.Rounds < 1 {
		b.Rounds = 3
	}
	chosen, err := choose(o.Scenarios)
	if err != nil {
		return nil, err
	}
	if o.Profiles != "" {
		if err := os.MkdirAll(o.Profiles, 0o755); err != nil {
			return nil, err
		}
	}
	var results []Result
	for _, s := range chosen {
		b.doing = s.name
		b.progress("%s", s.about)
		r, err := s.run(ctx, b)
		if err != nil {
			return results, fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, r...)
	}
	return results, nil
}

// choose finds scenarios by their names. Its error names those there are.
func choose(names []string) ([]scenario, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return s.name == Level }), nil
	}
	var chosen []scenario
	for _, name := range names {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return strings.EqualFold(s.name, strings.TrimSpace(name)) })
		if i < 0 {
			known, _ := Names()
			return nil, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

// Check reports a scenario that does not exist.
func (o Options) Check() error {
	_, err := choose(o.Scenarios)
	return err
}

func (b *bench) progress(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(b.doing + " · " + fmt.Sprintf(format, args...))
	}
}

func (b *bench) remark(format string, args ...any) {
	if b.Remark != nil {
		b.Remark(b.doing + ": " + fmt.Sprintf(format, args...))
	}
}

// each runs round after round; side hears what is measured now.
func (b *bench) each(round func(n int, side func(name string)) error) error {
	return b.times(b.Rounds, round)
}

func (b *bench) times(rounds int, round func(n int, side func(name string)) error) error {
	for n := range rounds {
		side := func(name string) { b.progress("round %d of %d · %s", n+1, rounds, name) }
		if err := round(n, side); err != nil {
			return err
		}
	}
	return nil
}

// events is the number of events of a scenario whose own number is given.
func (b *bench) events(own int) int {
	if b.Events > 0 {
		return b.Events
	}
	return own
}

// spread is how events are spread over at most so many aggregates: fewer events
// make fewer aggregates, not shorter lanes.
func spread(events, aggregates, perLane int) (names, each int) {
	names = max(1, min(aggregates, events/perLane))
	return names, max(1, events/names)
}
