package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrorFilter says which causes are meant. The zero ErrorFilter means all.
type ErrorFilter struct {
	// Type is the event type that the heads of the lanes must have.
	Type string
	// Limit is how many causes there are at most. 0: all.
	Limit int
}

// ErrorGroup is one cause of failures and the lanes that it holds. Its JSON is
// stable.
type ErrorGroup struct {
	Fingerprint string `json:"fingerprint"`
	// Message is the error of the lane that failed last.
	Message string `json:"message"`
	// EventTypes are those of the lanes' heads, in order. Of more than
	// ErrorSample lanes, so many are looked at.
	EventTypes []string `json:"event_types"`
	// Lanes are held by this cause: they are stuck, back off, or were paused by
	// a breaker. Those that a person paused are not counted.
	Lanes int64 `json:"lanes"`
	Stuck int64 `json:"stuck"`
	// FirstAt is the first failure of a head that still waits, LastAt the last.
	// Of more than ErrorSample lanes, the first failures of so many are looked at.
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`

	Backoff int64 `json:"backoff"`
	// Paused lanes wait for a breaker: a dependency of their head's type is down.
	Paused int64 `json:"paused"`
	// Breakers are the open ones that this cause opened, in order of their types.
	Breakers []Breaker `json:"breakers"`

	last int64 // the lane that failed last
}

// Breaker is an event type that waits because what its handlers depend on is
// down. Its JSON is stable.
type Breaker struct {
	EventType string    `json:"event_type"`
	OpenedAt  time.Time `json:"opened_at"`
	Reason    string    `json:"reason"`
	// NextProbeAt is when one lane is run next, to find out whether what was
	// down is back, and Probes how often that was tried.
	NextProbeAt time.Time `json:"next_probe_at"`
	Probes      int       `json:"probes"`

	fingerprint string
}

// ErrorSample is of how many lanes of a cause the heads are looked at.
const ErrorSample = 2000

const (
	// heldSQL are the lanes that errors hold, and that no person paused. By the
	// index lanes_held.
	heldSQL = `(l.state in ('stuck', 'backoff') or l.state = 'paused' and l.paused_type is not null)
	and l.error_fingerprint is not null`

	breakersSQL = `select event_type, opened_at, reason, fingerprint, next_probe_at, probes
from {schema}.breakers
order by event_type`

	// sampleSQL looks closer at each of some causes: the error of one lane, by
	// the primary key; the types of the heads of some lanes, by the index
	// lanes_error and the primary key of the inbox; and the first failure of the
	// heads of some, by the index failures_event.
	sampleSQL = `select g.fingerprint, coalesce((select l.error_message from {schema}.lanes l where l.lane_id = g.last), ''),
	s.types, s.first_at
from unnest($1::text[], $2::bigint[]) g(fingerprint, last)
cross join lateral (
	select array_agg(distinct h.event_type order by h.event_type) filter (where h.event_type is not null) as types,
		min(f.at) as first_at
	from (
		select l.lane_id, l.cursor, l.segment
		from {schema}.lanes l
		where l.error_fingerprint = g.fingerprint and ` + heldSQL + `
		order by l.lane_id
		limit $3
	) l
	` + headSQL + `
	left join lateral (
		select at from {schema}.failures
		where lane_id = l.lane_id and position = l.cursor + 1 and fingerprint = g.fingerprint
		order by failure_id
		limit 1
	) f on true
) s`
)

// Errors groups the lanes that are stuck, back off or wait for a breaker by what
// their heads failed of: the causes that hold most lanes come first, those that
// hold most of them stuck before others. A breaker that holds no lane at the
// moment is listed as well.
func (a *Admin) Errors(ctx context.Context, f ErrorFilter) ([]ErrorGroup, error) {
	if f.Limit < 0 {
		return nil, invalid("the limit is %d, but must not be negative", f.Limit)
	}
	var groups []ErrorGroup
	err := a.read(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, byIndexSQL); err != nil {
			return err
		}
		breakers, err := collect(ctx, tx, scanBreaker, a.in(breakersSQL))
		if err != nil {
			return err
		}
		if groups, err = a.errorGroups(ctx, tx, f); err != nil {
			return err
		}
		groups = withBreakers(groups, breakers, f)
		return a.lookCloser(ctx, tx, groups, f)
	})
	if err != nil {
		return nil, fmt.Errorf("list errors: %w", err)
	}
	return groups, nil
}

// errorGroups counts. Only with a type are all heads looked at.
func (a *Admin) errorGroups(ctx context.Context, tx pgx.Tx, f ErrorFilter) ([]ErrorGroup, error) {
	q := &query{}
	q.and(heldSQL)
	head := ""
	if f.Type != "" {
		head = headSQL + "\n"
		q.and("h.event_type = " + q.arg(cleaned(f.Type)))
	}
	sql := `select l.error_fingerprint, count(*), count(*) filter (where l.state = 'stuck'),
	count(*) filter (where l.state = 'backoff'), count(*) filter (where l.state = 'paused'),
	min(coalesce(l.error_at, l.since)), max(coalesce(l.error_at, l.since)),
	(array_agg(l.lane_id order by l.error_at desc nulls last, l.lane_id))[1]
from {schema}.lanes l
` + head + `where ` + strings.Join(q.where, "\n\tand ") + `
group by l.error_fingerprint
order by 2 desc, 3 desc, 1
limit nullif(` + q.arg(f.Limit) + `::bigint, 0)`
	return collect(ctx, tx, func(row pgx.CollectableRow) (ErrorGroup, error) {
		g := ErrorGroup{EventTypes: []string{}, Breakers: []Breaker{}}
		err := row.Scan(&g.Fingerprint, &g.Lanes, &g.Stuck, &g.Backoff, &g.Paused, &g.FirstAt, &g.LastAt, &g.last)
		g.FirstAt, g.LastAt = g.FirstAt.UTC(), g.LastAt.UTC()
		return g, err
	}, a.in(sql), q.args...)
}

// withBreakers gives each cause its breakers, and adds the causes whose breakers
// hold no lane.
func withBreakers(groups []ErrorGroup, breakers []Breaker, f ErrorFilter) []ErrorGroup {
	for _, b := range breakers {
		if f.Type != "" && b.EventType != f.Type {
			continue
		}
		i := slices.IndexFunc(groups, func(g ErrorGroup) bool { return g.Fingerprint == b.fingerprint })
		if i < 0 {
			if f.Limit > 0 && len(groups) >= f.Limit {
				continue
			}
			i = len(groups)
			groups = append(groups, ErrorGroup{Fingerprint: b.fingerprint, Message: b.Reason, EventTypes: []string{},
				FirstAt: b.OpenedAt, LastAt: b.OpenedAt, Breakers: []Breaker{}})
		}
		g := &groups[i]
		g.Breakers = append(g.Breakers, b)
		if !slices.Contains(g.EventTypes, b.EventType) {
			g.EventTypes = append(g.EventTypes, b.EventType)
		}
	}
	return groups
}

// lookCloser fills in what takes more than counting.
func (a *Admin) lookCloser(ctx context.Context, tx pgx.Tx, groups []ErrorGroup, f ErrorFilter) error {
	at := map[string]*ErrorGroup{}
	var prints []string
	var lasts []int64
	for i := range groups {
		if g := &groups[i]; g.Lanes > 0 {
			at[g.Fingerprint] = g
			prints, lasts = append(prints, g.Fingerprint), append(lasts, g.last)
		}
	}
	rows, err := tx.Query(ctx, a.in(sampleSQL), prints, lasts, ErrorSample)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var fingerprint, message string
		var types []string
		var first *time.Time
		if err := rows.Scan(&fingerprint, &message, &types, &first); err != nil {
			return err
		}
		if f.Type != "" { // the only ones that were counted
			types = []string{f.Type}
		}
		at[fingerprint].closer(message, types, first)
	}
	return rows.Err()
}

func (g *ErrorGroup) closer(message string, types []string, first *time.Time) {
	g.Message = message
	for _, t := range types {
		if !slices.Contains(g.EventTypes, t) {
			g.EventTypes = append(g.EventTypes, t)
		}
	}
	slices.Sort(g.EventTypes)
	if first != nil && first.Before(g.FirstAt) {
		g.FirstAt = first.UTC()
	}
}

func scanBreaker(row pgx.CollectableRow) (Breaker, error) {
	var b Breaker
	err := row.Scan(&b.EventType, &b.OpenedAt, &b.Reason, &b.fingerprint, &b.NextProbeAt, &b.Probes)
	b.OpenedAt, b.NextProbeAt = b.OpenedAt.UTC(), b.NextProbeAt.UTC()
	return b, err
}
