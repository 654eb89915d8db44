package bench

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Result is one line of the outcome. Its JSON is stable.
type Result struct {
	Scenario        string   `json:"scenario"`
	Events          int      `json:"events"` // of one round
	Aggregates      int      `json:"aggregates"`
	Workers         int      `json:"workers"`
	Batch           int      `json:"batch"`
	EventsPerSecond *float64 `json:"events_per_second"`
	// Reference says what the figure is compared with.
	Reference          *string  `json:"reference"`
	ReferencePerSecond *float64 `json:"reference_events_per_second"`
	// Ratio is the figure itself where the goal is one (W7: bytes an event, W8:
	// MiB), the time as a multiple of the reference's in W6, and sizes as
	// multiples of what they were in Level's tables and bytes.
	Ratio float64 `json:"ratio"`
	Goal  float64 `json:"goal"`
	Met   bool    `json:"met"`
	// Violations are events lost, doubled or out of order, in all rounds.
	Violations int64 `json:"violations"`

	goal goal
}

// goal is what the ratio is held against.
type goal struct {
	value float64
	below bool   // the ratio has to be less; else at least as much
	unit  string // of both; empty: they are multiples
}

func (g goal) met(ratio float64) bool {
	if g.below {
		return ratio < g.value
	}
	return ratio >= g.value
}

// RatioText is the ratio for people.
func (r Result) RatioText() string {
	if r.goal.unit != "" {
		return fmt.Sprintf("%.0f %s", r.Ratio, r.goal.unit)
	}
	return fmt.Sprintf("%.2f", r.Ratio)
}

// GoalText is the goal for people.
func (r Result) GoalText() string {
	sign := "≥ "
	if r.goal.below {
		sign = "< "
	}
	text := fmt.Sprintf("%s%g", sign, r.Goal)
	if r.goal.unit != "" {
		text += " " + r.goal.unit
	}
	return text
}

// side is what one side did in one round.
type side struct {
	events int64
	took   time.Duration
}

func (s side) rate() float64 { return float64(s.events) / s.took.Seconds() }

// line gathers the rounds of one result.
type line struct {
	scenario                           string
	events, aggregates, workers, batch int
	reference                          string
	goal                               goal

	rates, references, ratios []float64
	violations                int64
}

// compare adds a round in which the ratio is that of the two rates.
func (l *line) compare(own, reference side) {
	l.rates = append(l.rates, own.rate())
	l.references = append(l.references, reference.rate())
	l.ratios = append(l.ratios, own.rate()/reference.rate())
}

func (l *line) result() Result {
	r := Result{
		Scenario: l.scenario, Events: l.events, Aggregates: l.aggregates, Workers: l.workers, Batch: l.batch,
		EventsPerSecond: rounded(l.rates), ReferencePerSecond: rounded(l.references),
		Ratio: round(median(l.ratios), 3), Goal: l.goal.value, goal: l.goal, Violations: l.violations,
	}
	r.Met = l.goal.met(median(l.ratios))
	if l.reference != "" {
		r.Reference = &l.reference
	}
	return r
}

func results(lines ...*line) []Result {
	all := make([]Result, len(lines))
	for i, l := range lines {
		all[i] = l.result()
	}
	return all
}

// median is the middle of the values, or the mean of the two in the middle; NaN
// of none.
func median(values []float64) float64 {
	return (quantile(values, 0.5, math.Floor) + quantile(values, 0.5, math.Ceil)) / 2
}

// quantile is the value at a share of the way from the least to the largest.
func quantile(values []float64, share float64, toward func(float64) float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(toward(share*float64(len(sorted)-1)))]
}

// rounded is the median as a whole number; nil of none.
func rounded(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	m := math.Round(median(values))
	return &m
}

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}
