package ordering

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// Payloads larger than this are not read ahead; each is fetched when its turn
// comes, and a turn takes at most fetchBudget of them.
const (
	largePayload = 8 << 10
	fetchBudget  = 4 << 20
)

// load reads the lanes and their next events. Lanes that it does not find are
// left without events.
func (p *Processor) load(ctx context.Context, conn *pgx.Conn, lanes []*lane) error {
	ids := make([]int64, len(lanes))
	byID := make(map[int64]*lane, len(lanes))
	for i, l := range lanes {
		ids[i], byID[l.id] = l.id, l
		l.events, l.more, l.loaded, l.runnable = nil, false, true, false
	}
	perLane := p.readAhead(len(lanes))
	if err := p.read(ctx, conn, ids, nil, func(r *row) error { return r.into(byID[r.laneID], perLane) }); err != nil {
		return fmt.Errorf("load %d lanes: %w", len(lanes), err)
	}
	for _, l := range lanes {
		l.more = len(l.events) == perLane
	}
	return nil
}

// read reads lanes and their next events, or those after a position, row by row.
func (p *Processor) read(ctx context.Context, conn *pgx.Conn, ids []int64, after *int64, take func(*row) error) error {
	rows, err := conn.Query(ctx, p.sql.load, ids, p.readAhead(len(ids)), largePayload, after)
	if err != nil {
		return err
	}
	defer rows.Close()
	var r row
	dest := r.dest()
	for rows.Next() {
		r.reset()
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if err := take(&r); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readAhead is how many events of a lane are read at once: for a few lanes more
// than one turn takes, so that a busy lane is not read before each turn.
func (p *Processor) readAhead(lanes int) int {
	turns := max(1, min(8, 32/lanes))
	return max(p.cfg.Batch*turns, 32)
}

// row is one row of load: a lane and one of its events, if it has any.
type row struct {
	laneID, cursor        int64
	replayedTo, carefulTo int64
	aggregate             string
	version, generation   int32
	runnable              bool
	attempts, crashes     int
	traced, parked        bool
	position              *int64
	segment               *int32
	eventID, eventType    *string
	sequence              *int64
	occurred, received    *time.Time
	topic                 *string
	partition             *int32
	offset                *int64
	headers, payload      []byte
}

func (r *row) dest() []any {
	return []any{&r.laneID, &r.aggregate, &r.cursor, &r.version, &r.generation, &r.runnable,
		&r.attempts, &r.crashes, &r.traced, &r.parked, &r.replayedTo, &r.carefulTo,
		&r.position, &r.segment, &r.eventID, &r.eventType, &r.sequence, &r.occurred, &r.received,
		&r.topic, &r.partition, &r.offset, &r.headers, &r.payload}
}

func (r *row) reset() { r.headers, r.payload = nil, nil }

func (r *row) into(l *lane, perLane int) error {
	if l == nil {
		return nil
	}
	l.cursor, l.version, l.generation = r.cursor, r.version, r.generation
	l.attempts, l.crashes, l.parked, l.runnable = r.attempts, r.crashes, r.parked, r.runnable
	l.carefulTo = r.carefulTo
	if !l.ran { // what this process left itself is no trace
		l.traced = r.traced
	}
	if r.position == nil {
		return nil
	}
	if want := r.cursor + int64(len(l.events)) + 1; *r.position != want {
		if l.failed == nil {
			l.fail(want, fmt.Errorf("%w: position %d is missing and the next is %d", ErrGap, want, *r.position))
		}
		return nil
	}
	headers, err := inbox.DecodeHeaders(r.headers)
	if err != nil {
		return fmt.Errorf("event %s: %w", *r.eventID, err)
	}
	e := event{segment: *r.segment, large: r.payload == nil}
	e.Event = inbox.Event{
		ID: *r.eventID, AggregateID: r.aggregate, Type: *r.eventType, Sequence: r.sequence,
		Payload: r.payload, Headers: headers,
		OccurredAt: *r.occurred, ReceivedAt: *r.received, Position: *r.position,
	}
	if r.topic != nil {
		e.Source = inbox.Source{Topic: *r.topic, Partition: *r.partition, Offset: *r.offset}
	}
	e.Replay = *r.position <= r.replayedTo
	if l.events == nil {
		l.events = make([]event, 0, min(perLane, 16))
	}
	l.events = append(l.events, e)
	return nil
}

// fetch reads the large payloads among the next n events of the lane, as many as
// a turn may hold, and answers how many events can run.
func (p *Processor) fetch(ctx context.Context, conn *pgx.Conn, l *lane, n int) (int, error) {
	budget := fetchBudget
	for i := range n {
		e := &l.events[i]
		if !e.large {
			continue
		}
		if budget <= 0 {
			return i, nil
		}
		if err := conn.QueryRow(ctx, p.sql.payload, l.id, e.Position, e.segment).Scan(&e.Payload); err != nil {
			return 0, fmt.Errorf("fetch payload of event %s: %w", e.ID, err)
		}
		e.large = false
		budget -= len(e.Payload)
	}
	return n, nil
}
