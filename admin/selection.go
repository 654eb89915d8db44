package admin

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// selection is a Filter and what bulk changes add to it.
type selection struct {
	Filter
	states []State   // only these; empty: any
	before time.Time // held since then at least; zero: no matter
}

// section is one part of a list: lanes that one index has in the list's order.
type section struct {
	name   string
	where  string
	byTime bool // in order of (since, lane_id), else of lane_id
}

var (
	// By the index lanes_held.
	stuckSection   = section{string(Stuck), `l.state = 'stuck'`, true}
	pausedSection  = section{string(Paused), `l.state = 'paused'`, true}
	waitingSection = section{string(Waiting), `l.state = 'waiting'`, true}
	backoffSection = section{string(Backoff), `l.state = 'backoff' and not ` + runningSQL, true}
	// By the primary key of lanes, for the few that run.
	runningSection = section{string(Running), runningSQL, false}
	// By the index aggregates_pending: a lane that is ready is never parked.
	readySection = section{string(Ready), `a.pending and not a.parked and l.state = 'ready'
	and a.last_position > l.cursor and not ` + runningSQL, false}
	// All lanes, by the primary key: only when asked for.
	idleSection = section{string(Idle), `l.state = 'ready' and a.last_position <= l.cursor`, false}
	// By the index lanes_error.
	errorSection = section{"error", `not (l.state = 'ready' and a.last_position <= l.cursor)`, false}
)

// sections are the parts of the list, in its order.
func (s selection) sections() []section {
	all := []section{stuckSection, pausedSection, waitingSection, backoffSection, runningSection, readySection, idleSection}
	if s.Error != "" && s.State == "" {
		return []section{errorSection}
	}
	var chosen []section
	for _, sec := range all {
		state := State(sec.name)
		switch {
		case s.State != "" && s.State != state, s.State == "" && state == Idle,
			len(s.states) > 0 && !slices.Contains(s.states, state):
			continue
		}
		if s.Error != "" {
			sec.byTime = false // the index lanes_error is in the other order
		}
		chosen = append(chosen, sec)
	}
	return chosen
}

// query is a statement about the lanes of one section.
type query struct {
	where []string
	args  []any
	head  bool // a condition is about the head
}

func (q *query) arg(v any) string {
	q.args = append(q.args, v)
	return fmt.Sprintf("$%d", len(q.args))
}

func (q *query) and(condition string) { q.where = append(q.where, condition) }

func (sec section) query(s selection) *query {
	q := &query{}
	q.and(sec.where)
	if s.Error != "" {
		q.and("l.error_fingerprint = " + q.arg(cleaned(s.Error)))
	}
	if s.Type != "" {
		q.head = true
		q.and("h.event_type = " + q.arg(cleaned(s.Type)))
	}
	if s.OlderThan > 0 {
		q.olderThan(sec, s.OlderThan)
	}
	if len(s.states) > 0 && sec.name == errorSection.name {
		q.and("l.state = any(" + q.arg(s.states) + "::text[])")
	}
	if !s.before.IsZero() {
		q.and("l.since <= " + q.arg(s.before))
	}
	return q
}

func (q *query) olderThan(sec section, d time.Duration) {
	if sec.name == string(Idle) {
		q.and("false")
		return
	}
	limit := "now() - " + q.arg(d) + "::interval"
	switch sec.name {
	case string(Ready), string(Running):
		q.head = true
		q.and("h.received_at <= " + limit)
	case errorSection.name:
		q.head = true
		q.and("case when l.state = 'ready' or " + runningSQL + " then h.received_at else l.since end <= " + limit)
	default:
		q.and("l.since <= " + limit)
	}
}

// after has the query go on behind a lane.
func (q *query) after(sec section, at place) {
	if sec.byTime {
		q.and("(l.since, l.lane_id) > (" + q.arg(at.since) + ", " + q.arg(at.lane) + ")")
		return
	}
	from := q.arg(at.lane)
	if sec.name == string(Ready) {
		q.and(sec.key() + " > " + from)
		return
	}
	// On both sides of the join, so that whichever table it begins with is read
	// from there on.
	q.and("a.lane_id > " + from)
	q.and("l.lane_id > " + from)
}

// key is the column by which a section not in order of time is ordered: that of
// the index that finds it.
func (sec section) key() string {
	if sec.name == string(Ready) {
		return "a.lane_id + 0" // as the index aggregates_pending has it
	}
	return "l.lane_id"
}

func (q *query) listSQL(sec section, limit int) string {
	order := sec.key()
	if sec.byTime {
		order = "l.since, l.lane_id"
	}
	return `select ` + laneColumnsSQL + `
from ` + laneTablesSQL + `
` + headSQL + `
where ` + strings.Join(q.where, "\n\tand ") + `
order by ` + order + `
limit ` + q.arg(limit)
}

func (q *query) countSQL() string {
	head := ""
	if q.head {
		head = headSQL + "\n"
	}
	return `select count(*)
from ` + laneTablesSQL + `
` + head + `where ` + strings.Join(q.where, "\n\tand ")
}
