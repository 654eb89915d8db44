package bench

import "fmt"

// What Level holds the last third of a run against the first third by.
var (
	levelRate   = goal{value: 0.9}
	levelTables = goal{value: 1.1, below: true}
	levelBytes  = goal{value: 1.1, below: true}
)

// verdict is what the samples of Level say.
type verdict struct {
	begin, first, last sample   // before the run, at the end of its first third, at its end
	hot                []string // names of tables

	rates    [2]float64 // medians of the first and the last third
	perEvent [2]float64 // bytes in the first and the last third
}

// judge compares the last third of the samples with the first. The first sample
// is from before the run, and the second ends the warm-up: it belongs to neither
// third. There have to be four more intervals than that, at least.
func judge(samples []sample) verdict {
	intervals := samples[1:]
	n := len(intervals)
	third := (n - 1) / 3
	first, last := intervals[:third+1], intervals[n-1-third:]
	v := verdict{begin: samples[0], first: first[third], last: last[third]}
	v.hot = v.last.hot(v.begin)
	for i, part := range [][]sample{first, last} {
		v.rates[i] = median(ratesOf(part))
		v.perEvent[i] = part[third].perEvent(part[0])
	}
	return v
}

// ratesOf are the rates between samples.
func ratesOf(samples []sample) []float64 {
	var rates []float64
	for i, s := range samples[1:] {
		rates = append(rates, s.rate(samples[i]))
	}
	return rates
}

// results are the lines of the outcome.
func (v verdict) results(aggregates int, events, violations int64) []Result {
	newLine := func(name, reference string, g goal, ratio float64) *line {
		return &line{scenario: Level + " " + name, events: int(events), aggregates: aggregates, workers: workers, batch: batch,
			reference: reference, goal: g, rates: []float64{v.last.rate(v.begin)}, ratios: []float64{ratio}}
	}
	rate := newLine("rate", "the first third", levelRate, v.rates[1]/v.rates[0])
	rate.rates, rate.references, rate.violations = v.rates[1:], v.rates[:1], violations
	return results(rate,
		newLine("tables", "after the first third", levelTables, float64(v.last.bytes(v.hot))/float64(v.first.bytes(v.hot))),
		newLine("bytes", "the first third", levelBytes, v.perEvent[1]/v.perEvent[0]))
}

// explain says what a reader of the results would ask next.
func (v verdict) explain(say func(format string, args ...any)) {
	var vacuumed int64
	for _, name := range v.hot {
		vacuumed += v.last.tables[name].vacuum - v.begin.tables[name].vacuum
	}
	say("tables that change in place take %.2f MB, %.2f MB after the first third; autovacuum took them %d times",
		megabytes(v.last.bytes(v.hot)), megabytes(v.first.bytes(v.hot)), vacuumed)
	for _, name := range v.hot {
		before, now := v.first.tables[name].bytes, v.last.tables[name].bytes
		if float64(now) >= levelTables.value*float64(before) {
			say("%s grew from %.2f to %.2f MB since then", name, megabytes(before), megabytes(now))
		}
	}
	say("%s", v.kept())
}

// kept is about the tables that keep what was stored.
func (v verdict) kept() string {
	return fmt.Sprintf("inbox and runs take %.0f MB, %.0f B an event in the first third and %.0f B in the last",
		megabytes(v.last.bytes(growing)), v.perEvent[0], v.perEvent[1])
}
