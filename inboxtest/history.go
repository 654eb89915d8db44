package inboxtest

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// historySQL has a row for each attempt that failed, each run and each event
// that waits, in the order of positions and time.
const historySQL = `
with e as (
	select * from {schema}.events
	where $1::text[] is null or aggregate_id = any($1)
)
select aggregate_id, lane_id, position, event_id, event_type, attempt, outcome, at, message from (
	select e.aggregate_id, e.lane_id, e.position, e.event_id, e.event_type, f.attempt,
		case when f.crash then 'died' else 'failed' end as outcome, f.at, f.message, f.failure_id as n
	from e join {schema}.failures f on f.lane_id = e.lane_id and f.position = e.position
	union all
	select e.aggregate_id, e.lane_id, e.position, e.event_id, e.event_type, e.attempts,
		case when e.skipped_at is not null then 'skipped' else 'processed' end, e.processed_at,
		(select a.reason from {schema}.audit a
			where e.skipped_at is not null and a.action = 'skip' and a.event_id = e.event_id order by a.id desc limit 1),
		9223372036854775807
	from e where e.processed_at is not null
	union all
	select e.aggregate_id, e.lane_id, e.position, e.event_id, e.event_type, null,
		case when e.position = l.cursor + 1 then
				case l.state when 'ready' then 'can run' when 'stuck' then 'is stuck' when 'paused' then 'is paused'
					when 'backoff' then 'waits for its next attempt' else 'waits' end
			else 'waits behind it' end, null,
		case when e.position = l.cursor + 1 then l.error_message end, 9223372036854775807
	from e join {schema}.lanes l on l.lane_id = e.lane_id
	where e.processed_at is null
) h
order by lane_id, position, n
limit 1000`

type entry struct {
	Aggregate string
	Lane      int64
	Position  int64
	Event     string
	Type      string
	Attempt   *int
	Outcome   string
	At        *time.Time
	Message   *string
}

// History is a table for people of what happened to the events of the aggregates,
// or of all without one: a line for each attempt, its outcome, when it was since
// the kit was made, and its error.
func (k *Kit) History(aggregates ...string) string {
	k.t.Helper()
	entries := rows(k, pgx.RowToStructByPos[entry], k.in(historySQL), aggregates)
	if len(entries) == 0 {
		return "no events"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "aggregate\tpos\tevent\ttype\tattempt\toutcome\tat\terror")
	before := ""
	for _, e := range entries {
		aggregate := e.Aggregate
		if aggregate == before {
			aggregate = ""
		}
		before = e.Aggregate
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", aggregate, e.Position, e.Event, e.Type,
			written(e.Attempt), e.Outcome, k.when(e.At), short(written(e.Message)))
	}
	_ = w.Flush() // to memory
	return trimLines(b.String())
}

// when is a time since the kit was made.
func (k *Kit) when(at *time.Time) string {
	if at == nil {
		return ""
	}
	return "+" + at.Sub(k.began).Round(time.Millisecond).String()
}

// trimLines drops the blanks at the ends of lines.
func trimLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func written[V any](v *V) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

// maxShown bounds what is printed of one text.
const maxShown = 300

// short puts a text on one line that is not too long.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= maxShown {
		return s
	}
	end := maxShown
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
