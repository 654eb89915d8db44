package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/internal/dev"
)

// devView shows how a sample goes on: a block that is drawn again and again on a
// terminal, a line a second elsewhere.
type devView struct {
	out      io.Writer
	terminal bool
	pool     *pgxpool.Pool
	lanesSQL string

	mu   sync.Mutex
	now  func() dev.Now // nil: nothing has begun
	last dev.Now
	rate float64
}

// laneStates counts lanes; it reads all of them, which are those of a sample.
const laneStates = `select case when l.state <> 'ready' then l.state when a.last_position > l.cursor then 'ready' else 'idle' end, count(*)
	from {schema}.lanes l join {schema}.aggregates a using (lane_id) group by 1`

func (a *app) newDevView(pool *pgxpool.Pool, schema string) *devView {
	return &devView{
		out: a.stderr, terminal: isTerminal(a.stderr), pool: pool,
		lanesSQL: strings.ReplaceAll(laneStates, "{schema}", pgx.Identifier{schema}.Sanitize()),
	}
}

// watch is told what to ask for what has happened.
func (v *devView) watch(now func() dev.Now) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now = now
}

// during shows progress while do runs.
func (v *devView) during(do func() (*dev.Report, error)) (*dev.Report, error) {
	ctx, stop := context.WithCancel(context.Background())
	var showing sync.WaitGroup
	showing.Go(func() { v.show(ctx) })
	defer showing.Wait()
	defer stop()
	return do()
}

func (v *devView) show(ctx context.Context) {
	every := time.Second
	if v.terminal {
		every = 200 * time.Millisecond
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	drawn := 0
	for {
		select {
		case <-ctx.Done():
			v.erase(drawn)
			return
		case <-ticker.C:
		}
		lines := v.lines(ctx)
		if len(lines) == 0 {
			continue
		}
		if !v.terminal {
			fmt.Fprintln(v.out, strings.Join(lines, "; "))
			continue
		}
		v.erase(drawn)
		fmt.Fprintln(v.out, strings.Join(lines, "\n"))
		drawn = len(lines)
	}
}

// erase goes up over the lines that were drawn and clears them.
func (v *devView) erase(lines int) {
	if v.terminal && lines > 0 {
		fmt.Fprintf(v.out, "\x1b[%dA\x1b[J", lines)
	}
}

func (v *devView) lines(ctx context.Context) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.now == nil {
		return nil
	}
	now := v.now()
	if d := (now.Elapsed - v.last.Elapsed).Seconds(); d > 0 {
		v.rate = float64(now.Counts.Processed-v.last.Counts.Processed) / d
	}
	v.last = now
	c := now.Counts
	first := fmt.Sprintf("%5.1f s  sent %s, stored %s, duplicates %s, processed %s (%s/s)", now.Elapsed.Seconds(),
		thousands(now.Sent.Records()), thousands(c.Stored), thousands(c.Duplicates), thousands(c.Processed), thousands(int64(v.rate)))
	if lanes := v.lanes(ctx); lanes != "" {
		return []string{first, "lanes: " + lanes}
	}
	return []string{first}
}

// lanes counts them by state; "" if the database does not say.
func (v *devView) lanes(ctx context.Context) string {
	limited, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	rows, err := v.pool.Query(limited, v.lanesSQL)
	if err != nil {
		return ""
	}
	var state string
	var n int64
	var all []string
	if _, err := pgx.ForEachRow(rows, []any{&state, &n}, func() error {
		all = append(all, state+" "+thousands(n))
		return nil
	}); err != nil {
		return ""
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
