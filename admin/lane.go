package admin

import (
	"time"

	"github.com/jackc/pgx/v5"
)

// State is a lane's state as people see it.
type State string

// The states.
const (
	// Idle lanes have no unprocessed event.
	Idle State = "idle"
	// Ready lanes run as soon as a worker is free.
	Ready State = "ready"
	// Running lanes have a handler that has been running for a while, in a
	// process that was seen within the last seconds. A lane whose handlers are
	// quick is ready until it is idle.
	Running State = "running"
	// Backoff lanes wait for their head's next attempt.
	Backoff State = "backoff"
	// Waiting lanes wait for the next event of their sequence.
	Waiting State = "waiting"
	// Stuck lanes wait for a person.
	Stuck State = "stuck"
	// Paused lanes were paused, and wait until they are resumed.
	Paused State = "paused"
)

// States are all states, the most urgent first. Lists have this order.
func States() []State { return []State{Stuck, Paused, Waiting, Backoff, Running, Ready, Idle} }

// Lane is the line of one aggregate's events. Its JSON is stable.
type Lane struct {
	AggregateID string `json:"aggregate_id"`
	State       State  `json:"state"`
	// Pending counts the unprocessed events, the head included.
	Pending int64 `json:"pending"`
	// Attempts of the head so far, since it became the head or was retried.
	Attempts int `json:"attempts"`
	// NextAttemptAt is when a backoff ends.
	NextAttemptAt *time.Time `json:"next_attempt_at"`
	// Since is when a held lane got its state, and when the head of a lane that
	// can run was received; nil for idle lanes.
	Since *time.Time `json:"since"`
	// Head is the oldest unprocessed event; nil if there is none.
	Head *Head `json:"head"`
	// Error is the head's last error; nil if it has not failed.
	Error        *Failure `json:"error"`
	PausedBy     *string  `json:"paused_by"`
	PausedReason *string  `json:"paused_reason"`
	// PausedType is the event type because of whose breaker the lane is paused;
	// nil: a person paused it, or it is not paused.
	PausedType *string `json:"-"`

	// AttemptLimit is how many attempts the head has before its lane is stuck, for
	// Sentence to say; 0: not known. Whoever knows the policy sets it.
	AttemptLimit int `json:"-"`
	// AsOf is the database's clock when the lane was read.
	AsOf time.Time `json:"-"`

	id         int64
	cursor     int64
	version    int32
	generation int32
	replayedTo int64
	stored     State     // as in the table
	held       time.Time // lanes.since
}

// Head names the event that a lane's others wait behind.
type Head struct {
	EventID    string    `json:"event_id"`
	EventType  string    `json:"event_type"`
	Position   int64     `json:"position"`
	ReceivedAt time.Time `json:"received_at"`
	// EditedAt is when an operator put another payload in the place of its own;
	// nil: nobody did.
	EditedAt *time.Time `json:"edited_at"`
}

// Failure is an error of an event. Failures of one cause have one fingerprint.
type Failure struct {
	Message     string    `json:"message"`
	Fingerprint string    `json:"fingerprint"`
	At          time.Time `json:"at"`
}

// The pieces of which statements about lanes are made. l is the lane, a the
// side of it that ingest keeps, h its head.
const (
	// busySQL is the lanes that processes say they are running: an array that is
	// computed once a statement. A process says so twice a second.
	busySQL = `array(select unnest(p.running) from {schema}.processes p
		where p.seen_at > clock_timestamp() - interval '3 seconds')`

	// canRunSQL is a lane that a worker may take, work or not.
	canRunSQL = `(l.state = 'ready' or l.state = 'backoff' and l.next_attempt_at <= clock_timestamp())`

	runningSQL = `(l.lane_id = any(` + busySQL + `) and ` + canRunSQL + ` and a.last_position > l.cursor)`

	laneColumnsSQL = `l.lane_id, l.cursor, l.version, l.generation, l.replayed_to, l.state, l.since, clock_timestamp(), l.aggregate_id,
	case when ` + runningSQL + ` then 'running'
		when l.state = 'ready' and a.last_position <= l.cursor then 'idle'
		else l.state end,
	greatest(a.last_position - l.cursor, 0), l.attempts + l.crashes,
	case when l.state = 'backoff' then l.next_attempt_at end,
	h.event_id, h.event_type, h.position, h.received_at,
	case when l.edited_to >= h.position then
		(select e.at from {schema}.edits e where e.lane_id = l.lane_id and e.position = h.position) end,
	l.error_message, l.error_fingerprint, l.error_at, l.paused_by, l.paused_reason, l.paused_type`

	laneTablesSQL = `{schema}.lanes l
join {schema}.aggregates a on a.lane_id = l.lane_id`

	// The head is found by the primary key of the inbox: positions are dense, so
	// that the first segment that has the next one ends the search. Only where
	// there is a gap are the segments compared for the first event behind it.
	headSQL = `left join lateral (
	select i.event_id, i.event_type, i.position, i.received_at
	from (
		(select * from {schema}.inbox x
		where x.lane_id = l.lane_id and x.segment >= l.segment and x.position = l.cursor + 1
		limit 1)
		union all
		(select * from {schema}.inbox x
		where x.lane_id = l.lane_id and x.segment >= l.segment and x.position > l.cursor
		order by x.position
		limit 1)
	) i
	limit 1
) h on true`

	// By the unique constraint on aggregates.
	laneByNameSQL = `select ` + laneColumnsSQL + `
from ` + laneTablesSQL + `
` + headSQL + `
where a.aggregate_id = $1`
)

// scanLane reads a row of laneColumnsSQL.
func scanLane(row pgx.Row) (Lane, error) {
	var l Lane
	var head struct {
		id, eventType *string
		position      *int64
		received      *time.Time
		edited        *time.Time
	}
	var failure struct {
		message, fingerprint *string
		at                   *time.Time
	}
	err := row.Scan(&l.id, &l.cursor, &l.version, &l.generation, &l.replayedTo, &l.stored, &l.held, &l.AsOf, &l.AggregateID,
		&l.State, &l.Pending, &l.Attempts, &l.NextAttemptAt,
		&head.id, &head.eventType, &head.position, &head.received, &head.edited,
		&failure.message, &failure.fingerprint, &failure.at, &l.PausedBy, &l.PausedReason, &l.PausedType)
	if err != nil {
		return Lane{}, err
	}
	l.AsOf, l.NextAttemptAt = l.AsOf.UTC(), utc(l.NextAttemptAt)
	if head.id != nil {
		l.Head = &Head{EventID: *head.id, EventType: *head.eventType, Position: *head.position,
			ReceivedAt: head.received.UTC(), EditedAt: utc(head.edited)}
	}
	if failure.message != nil {
		l.Error = &Failure{Message: *failure.message}
		if failure.fingerprint != nil {
			l.Error.Fingerprint = *failure.fingerprint
		}
		if failure.at != nil {
			l.Error.At = failure.at.UTC()
		}
	}
	l.Since = l.since()
	return l, nil
}

func (l *Lane) since() *time.Time {
	switch l.State {
	case Idle:
		return nil
	case Ready, Running:
		if l.Head == nil {
			return nil
		}
		return &l.Head.ReceivedAt
	}
	return utc(&l.held)
}
