//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// report prints what happened and what was found, and keeps a copy.
func (w *world) report(out io.Writer) {
	if f, err := os.Create(filepath.Join(w.dir, "report.txt")); err == nil {
		defer f.Close()
		out = io.MultiWriter(out, f)
	}
	n := &w.numbers
	fmt.Fprintf(out, "torture: seed %d, %s, %d processes, %d events a second, lease %s, %d attempts\n",
		w.opts.seed, w.opts.duration, len(w.slots()), w.opts.rate, lease, attempts)
	fmt.Fprintf(out, "events: %d produced (%d fragile, %d final), %d duplicates, %d altered duplicates, %d poison, %d ignored\n",
		n.produced, n.fragile, n.final, n.duplicates, n.conflicts, n.poison, n.ignored)
	fmt.Fprintf(out, "result: %d stored, %d effects; drained in %s, stopped in %s; %d crashes by handlers, %d operator's retries\n",
		n.stored, n.effects, round(n.drainTook), round(n.stopTook), len(w.exits.crashes), w.fixes.tried)
	fmt.Fprintf(out, "attempts: %d of %d innocent events have more than one; verify: %s\n", n.overAttempts, n.innocents, n.verify)
	most := ""
	for _, name := range slices.Sorted(maps.Keys(w.watcher.memory)) {
		most += fmt.Sprintf(" %s %d", name, w.watcher.memory[name])
	}
	connections := slices.MaxFunc(slices.Collect(maps.Values(w.watcher.connections)), cmp.Compare[int])
	fmt.Fprintf(out, "memory, MiB at most:%s; connections of a process at most: %d of %d\nmachine: %d processors, load average up to %.0f, longest hiccup %s\n\n",
		most, connections, maxConnections, runtime.NumCPU(), w.watcher.load, round(w.watcher.hiccup))
	w.reportFaults(out)
	fmt.Fprintln(out)
	if w.findings.any() {
		w.findings.write(out)
		return
	}
	fmt.Fprintln(out, "every promise was kept")
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// reportFaults is a table: for each kind how often it came, how often work was in
// flight then, the longest times in which nothing at all took effect, in which a
// lane waited, and in which a record waited to be stored.
func (w *world) reportFaults(out io.Writer) {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "fault\tcount\tin flight\tskipped\tall stood still\tlane waited, median\tmost\talone, most\tlimit\trecord waited\t")
	byKind := map[string][]*strike{}
	for _, s := range w.faults.strikes {
		byKind[s.kind] = append(byKind[s.kind], s)
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		w.reportKind(t, kind, byKind[kind])
	}
	_ = t.Flush() // like every print to stdout
}

func (w *world) reportKind(t io.Writer, kind string, strikes []*strike) {
	var count, inFlight, skipped int
	var gap, ingest, alone, limit time.Duration
	var recoveries []time.Duration
	for _, s := range strikes {
		if s.skipped != "" {
			skipped++
			continue
		}
		count++
		if s.inFlight() {
			inFlight++
		}
		gap, ingest, limit = max(gap, s.gap), max(ingest, s.ingest), s.limit
		recoveries = append(recoveries, s.recovery)
		if !w.overlapped(s) {
			alone = max(alone, s.recovery)
		}
	}
	if count == 0 {
		fmt.Fprintf(t, "%s\t0\t\t%d\t\t\t\t\t\t\t\n", kind, skipped)
		return
	}
	slices.Sort(recoveries)
	fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", kind, count, inFlight, skipped,
		round(gap), round(recoveries[len(recoveries)/2]), round(recoveries[len(recoveries)-1]), round(alone), limit, round(ingest))
}
