package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// process is a row of processes.
type process struct {
	ID     int32
	Name   string
	Silent time.Duration
}

// freshFor is how long a process that lives may go unheard.
const freshFor = 2500 * time.Millisecond

// runnableSQL looks whether any of the first lanes that may have work has some:
// by the index aggregates_pending, and the key of lanes.
const runnableSQL = `
select exists (
	select from (select lane_id, last_position from {schema}.aggregates where pending and not parked order by lane_id limit 1000) a
	cross join lateral (select k.cursor, k.state from {schema}.lanes k where k.lane_id = a.lane_id limit 1) l
	where l.state = 'ready' and a.last_position > l.cursor)`

func (e *examiner) processes(ctx context.Context) (finding, error) {
	all, err := rows[process](ctx, e, `select process_id, name, clock_timestamp() - seen_at from {schema}.processes order by seen_at`)
	if err != nil {
		return finding{}, err
	}
	silent := slices.DeleteFunc(slices.Clone(all), func(p process) bool { return p.Silent < freshFor })
	live := len(all) - len(silent)
	if len(silent) > 0 {
		p := silent[0]
		what := "another one takes over its lanes"
		if live == 0 {
			what = "there is none that takes over"
		}
		return warn("inboxd serve", "%s, the longest (%s) for %s; %s", count(len(silent), "process")+" "+agree(len(silent), "was", "were")+" not heard of", p.Name, age(p.Silent), what), nil
	}
	if live > 0 {
		return fine("%s run%s lanes", count(live, "process"), agree(live, "s", "")), nil
	}
	var waits bool
	if err := e.Pool.QueryRow(ctx, e.in(runnableSQL)).Scan(&waits); err != nil {
		return finding{}, err
	}
	if waits {
		return warn("inboxd serve", "no process runs lanes, and there are lanes that could run"), nil
	}
	return fine("no process runs lanes, and no lane waits for one"), nil
}

func (e *examiner) lanes(ctx context.Context) (finding, error) {
	var stuck, paused int
	var oldest *time.Duration
	// By the index lanes_held.
	err := e.Pool.QueryRow(ctx, e.in(`
select (select count(*) from {schema}.lanes where state = 'stuck'),
	(select count(*) from {schema}.lanes where state = 'paused'),
	(select clock_timestamp() - min(since) from {schema}.lanes where state = 'stuck')`)).Scan(&stuck, &paused, &oldest)
	switch {
	case err != nil:
		return finding{}, err
	case stuck > 0:
		return warn("inboxd errors list", "%s, the oldest for %s", count(stuck, "lane")+" "+agree(stuck, "is", "are")+" stuck", age(*oldest)), nil
	}
	return fine("none is stuck, %d %s paused", paused, agree(paused, "is", "are")), nil
}

// breaker is a row of breakers.
type breaker struct {
	EventType string
	Open      time.Duration
	Reason    string
	Probes    int32
}

func (e *examiner) breakers(ctx context.Context) (finding, error) {
	open, err := rows[breaker](ctx, e, `select event_type, clock_timestamp() - opened_at, reason, probes from {schema}.breakers order by opened_at`)
	if err != nil {
		return finding{}, err
	}
	var lines, remedies []string
	for _, b := range open {
		lines = append(lines, fmt.Sprintf("%s for %s, %s: %s", b.EventType, age(b.Open), count(int(b.Probes), "probe"), firstLine(b.Reason)))
		remedies = append(remedies, "inboxd lanes list --state paused --type "+shellWord(b.EventType))
	}
	if n := len(open); n > 0 {
		return warn(strings.Join(remedies[:min(n, 3)], "\n"), "%s: %s", count(n, "breaker")+" "+agree(n, "is", "are")+" open",
			strings.Join(lines[:min(n, 3)], "; ")), nil
	}
	return fine("none is open"), nil
}

// shellWord is a word that a shell takes as it is.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.,:/@", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
