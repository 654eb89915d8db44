package ordering_test

import (
	"strings"
	"testing"

	"github.com/inboxd/inboxd/internal/bench"
	"github.com/inboxd/inboxd/internal/pgtest"
)

// BenchmarkAgainstTextbook reports how many times the rate of the textbook loop
// each form of handler reaches, on many lanes (W1) and on one (W2), on the tests'
// server: inboxd bench has one that is set as users' are.
func BenchmarkAgainstTextbook(b *testing.B) {
	for _, scenario := range []string{"W1", "W2"} {
		b.Run(scenario, func(b *testing.B) {
			results, err := bench.Run(b.Context(), bench.Options{
				URL: pgtest.Database(b), Scenarios: []string{scenario}, Rounds: b.N,
			})
			must(b, err)
			for _, r := range results {
				name := strings.ReplaceAll(strings.TrimPrefix(r.Scenario, scenario+" "), " ", "-")
				b.ReportMetric(r.Ratio, name+"-ratio")
				if r.Violations > 0 {
					b.Errorf("%s: %d violations", r.Scenario, r.Violations)
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
