package bench

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/internal/pgtest"
)

func TestLevelRunsOnlyWhenNamed(t *testing.T) {
	t.Parallel()
	all, err := choose(nil)
	if err != nil || len(all) != len(scenarios)-1 {
		t.Errorf("%d of %d scenarios run, %v", len(all), len(scenarios), err)
	}
	for _, s := range all {
		if s.name == Level {
			t.Error("level runs")
		}
	}
	named, err := choose([]string{" Level"})
	if err != nil || len(named) != 1 || named[0].name != Level {
		t.Errorf("got %v, %v", named, err)
	}
}

// course is made samples: a minute each, 1,000 events a second, tables that stay
// as they are, 300 bytes an event. change has the last word on each of them.
func course(minutes int, change func(minute int, s *sample)) []sample {
	var all []sample
	for m := range minutes + 1 {
		n := int64(m) * 60_000
		s := sample{at: time.Duration(m) * time.Minute, fed: n + 10_000, processed: n, tables: map[string]table{
			lanesTable:      {bytes: 1_000_000, writes: n},
			aggregatesTable: {bytes: 1_000_000, writes: n},
			"processes":     {bytes: 10_000, writes: int64(m)},
			"quarantine":    {bytes: 10_000_000, writes: 5}, // nobody writes to it
			handlersTable:   {bytes: 1_000_000, writes: n},
			"inbox":         {bytes: 280 * n, writes: n},
			"runs":          {bytes: 20 * n, writes: n},
		}}
		change(m, &s)
		all = append(all, s)
	}
	return all
}

// resize changes the size of a table.
func (s *sample) resize(name string, factor float64) {
	t := s.tables[name]
	t.bytes = int64(float64(t.bytes) * factor)
	s.tables[name] = t
}

func TestLevelIsJudged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(minute int, s *sample)
		missed string
	}{
		{"all is level", func(int, *sample) {}, ""},
		{"a rate that decays", func(m int, s *sample) { s.processed -= int64(m*m) * 400 }, "level rate"},
		{"a rate that rises", func(m int, s *sample) { s.processed += int64(m*m) * 400; s.fed = s.processed }, ""},
		{"a slow warm-up", func(m int, s *sample) { s.processed = max(0, s.processed-50_000) }, ""},
		{"one slow minute", func(m int, s *sample) {
			if m >= 25 {
				s.processed -= 50_000
			}
		}, ""},
		{"a table that grows", func(m int, s *sample) { s.resize(lanesTable, 1+float64(m)/50) }, "level tables"},
		{"a table that grew in the first third", func(m int, s *sample) { s.resize(lanesTable, 1+float64(min(m, 10))) }, ""},
		{"a small table that is not cleared", func(m int, s *sample) { s.resize("processes", 1+float64(m*m)) }, "level tables"},
		{"the handler's own table grows", func(m int, s *sample) { s.resize(handlersTable, 1+float64(m)) }, ""},
		{"events that take more and more", func(m int, s *sample) { s.resize("inbox", 1+float64(m)/100) }, "level bytes"},
		{"runs that take more and more", func(m int, s *sample) { s.resize("runs", 1+float64(m)/10) }, "level bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var missed []string
			for _, r := range judge(course(30, tc.change)).results(1000, 1_800_000, 0) {
				if !r.Met {
					missed = append(missed, r.Scenario)
				}
			}
			if got := strings.Join(missed, ", "); got != tc.missed {
				t.Errorf("missed: %q, want %q", got, tc.missed)
			}
		})
	}
}

func TestLevelFigures(t *testing.T) {
	t.Parallel()
	v := judge(course(10, func(m int, s *sample) {
		s.resize(lanesTable, 1+float64(m)/10)
		if m > 7 {
			s.processed += int64(m-7) * 60_000 // at twice the rate
			s.fed = s.processed
		}
	}))
	rs := v.results(1000, 600_000, 7)
	if rs[0].Ratio != 2 || *rs[0].EventsPerSecond != 2000 || *rs[0].ReferencePerSecond != 1000 {
		t.Errorf("the rate: %+v", rs[0])
	}
	// 2.0 MB and 1.0 MB and 10 kB at the end; 1.4 MB and those after four minutes.
	if rs[1].Ratio != 1.249 || rs[1].GoalText() != "< 1.1" {
		t.Errorf("the tables: %+v", rs[1])
	}
	if v.perEvent[0] != 300 || rs[0].Violations != 7 || rs[1].Violations+rs[2].Violations != 0 {
		t.Errorf("%+v, %+v", v.perEvent, rs)
	}
	var said []string
	v.explain(func(format string, args ...any) { said = append(said, strings.TrimSpace(format)) })
	if len(said) != 3 { // of lanes alone that it grew
		t.Errorf("said %q", said)
	}
}

func TestSampleAsALine(t *testing.T) {
	t.Parallel()
	samples := course(12, func(int, *sample) {})
	text := samples[12].text(samples[11])
	if got := strings.Join(strings.Fields(text), " "); got != "12:00 1000 10000 0.95 0.95 9.55 0.95 0 300" {
		t.Errorf("got %s", got)
	}
	if len(text) != len(sampleHead) {
		t.Errorf("columns are not under their heads:\n%s\n%s", sampleHead, text)
	}
}

// levelRemarks runs a short level and has first called with the first remark: when
// events are stored and run.
func levelRemarks(t *testing.T, length time.Duration, first func(pool *pgxpool.Pool, schema string)) ([]Result, []string, error) {
	t.Helper()
	url := pgtest.Database(t)
	pool := pgtest.Pool(t, url)
	var said []string
	var once sync.Once
	results, err := Run(t.Context(), Options{URL: url, Scenarios: []string{Level}, Events: 400, For: length, Remark: func(text string) {
		said = append(said, text)
		once.Do(func() {
			schema, err := one[string](t.Context(), pool,
				`select quote_ident(nspname) from pg_namespace where nspname like 'inboxd_bench%' and nspname not like '%other'`)
			if err != nil {
				t.Error(err)
			}
			first(pool, schema)
		})
	}})
	t.Log(strings.Join(said, "\n"))
	return results, said, err
}

func change(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(context.WithoutCancel(t.Context()), sql); err != nil {
		t.Error(err)
	}
}

func TestLevelInSmall(t *testing.T) {
	t.Parallel()
	results, said, err := levelRemarks(t, 6*time.Second, func(*pgxpool.Pool, string) {})
	if err != nil {
		t.Fatal(err)
	}
	// A head and ten samples, and at the end the tables and what is kept.
	if len(said) < 13 || !strings.Contains(said[0], "rate/s") {
		t.Errorf("%d remarks", len(said))
	}
	names := map[string]bool{}
	for _, r := range results {
		names[r.Scenario] = true
		t.Logf("%s: %.0f events a second, %s, %s, %d events", r.Scenario, *r.EventsPerSecond, r.RatioText(), r.GoalText(), r.Events)
		if r.Violations != 0 || *r.EventsPerSecond <= 0 || r.Aggregates != 20 || r.Events <= 400 {
			t.Errorf("%+v", r)
		}
		if !(r.Ratio > 0 && r.Ratio < 1000) {
			t.Errorf("%s is %g", r.Scenario, r.Ratio)
		}
	}
	if want := map[string]bool{"level rate": true, "level tables": true, "level bytes": true}; !maps.Equal(names, want) {
		t.Errorf("the results are %v", names)
	}
}

func TestLevelSeesAFault(t *testing.T) {
	t.Parallel()
	results, _, err := levelRemarks(t, 6*time.Second, func(pool *pgxpool.Pool, schema string) {
		change(t, pool, `update `+schema+`.accounts set amount = amount - 1 where account_id = 'account-3'`)
	})
	if err != nil || len(results) != 3 || results[0].Violations == 0 {
		t.Errorf("got %+v, %v", results, err)
	}
}

// TestLevelEndsWithTheFirstError has PostgreSQL refuse to store, as it does when
// the disk is full.
func TestLevelEndsWithTheFirstError(t *testing.T) {
	t.Parallel()
	began := time.Now()
	results, _, err := levelRemarks(t, time.Hour, func(pool *pgxpool.Pool, schema string) {
		change(t, pool, `alter table `+schema+`.inbox add constraint full_disk check (event_id = '') not valid`)
	})
	if err == nil || !strings.Contains(err.Error(), "full_disk") || len(results) != 0 {
		t.Errorf("%v, %v", results, err)
	}
	if took := time.Since(began); took > 5*time.Minute {
		t.Errorf("it took %s", took)
	}
}
