package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/inboxd/inboxd/internal/bench"
	"github.com/inboxd/inboxd/internal/pgtest"
)

// childVariable makes the test binary a child of W8 and W9.
const childVariable = "INBOXD_BENCH_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := bench.Child(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// sarama's metrics have a goroutine for the life of the process.
	pgtest.Main(m, goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

func child() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// fields are those of the contract, in the order of their names.
var fields = strings.Fields(`aggregates batch events events_per_second goal met ratio reference
	reference_events_per_second scenario violations workers`)

// lines are how many results each scenario has.
var lines = map[string]int{"W1": 4, "W2": 8, "W3": 1, "W4": 3, "W5": 1, "W6": 2, "W7": 2, "W8": 1, "W9": 2, "W10": 2, "level": 3}

func TestScenariosInSmall(t *testing.T) {
	names, _ := bench.Names()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := bench.Run(t.Context(), bench.Options{
				URL: pgtest.Database(t), Scenarios: []string{name}, Rounds: 1, Events: 100, For: 5 * time.Second, Child: child,
				Remark: func(text string) { t.Log(text) },
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(results) != lines[name] {
				t.Errorf("%d results, want %d", len(results), lines[name])
			}
			for _, r := range results {
				t.Logf("%-22s %6.0f/s ratio %s goal %s", r.Scenario, deref(r.EventsPerSecond), r.RatioText(), r.GoalText())
				checkResult(t, r)
			}
		})
	}
}

func checkResult(t *testing.T, r bench.Result) {
	t.Helper()
	if r.Violations != 0 {
		t.Errorf("%s: %d violations", r.Scenario, r.Violations)
	}
	if r.Ratio <= 0 || r.Events < 1 || r.Workers < 1 || r.Batch < 1 || deref(r.EventsPerSecond) <= 0 {
		t.Errorf("%s: nothing was measured: %+v", r.Scenario, r)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(b, &object); err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		if _, ok := object[field]; !ok {
			t.Errorf("%s: no field %s", r.Scenario, field)
		}
	}
	if len(object) != len(fields) {
		t.Errorf("%s: fields %v", r.Scenario, object)
	}
}

func deref(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func TestNothingIsLeftInTheDatabase(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	_, err := bench.Run(t.Context(), bench.Options{URL: url, Scenarios: []string{"w1"}, Rounds: 1, Events: 20})
	if err != nil {
		t.Fatal(err)
	}
	var left int
	err = pgtest.Pool(t, url).QueryRow(t.Context(), `select count(*) from pg_namespace where nspname like 'inboxd%'`).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d schemas are left, %v", left, err)
	}
}

func TestUnknownScenario(t *testing.T) {
	t.Parallel()
	err := bench.Options{Scenarios: []string{"W1", "W11"}}.Check()
	if err == nil || !strings.Contains(err.Error(), `"W11"`) || !strings.Contains(err.Error(), "W10") {
		t.Errorf("got %v", err)
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	text, err := bench.Server(t.Context(), pgtest.Database(t))
	if err != nil || !strings.Contains(text, "fsync off") || !strings.Contains(text, "shared_buffers") {
		t.Errorf("got %q, %v", text, err)
	}
}
