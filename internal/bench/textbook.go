package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The textbook loop: an advisory lock on the aggregate, its oldest row, the
// handler's statement, the flag, the commit; a round trip each, a transaction an
// event. It is told which aggregates have events, and how many, so it searches
// for nothing and waits for no lock.
const (
	textbookTable = `create table {other}.textbook (
		id bigint generated always as identity primary key, event_id text not null unique,
		aggregate_id text not null, event_type text not null, payload bytea not null, processed_at timestamptz)`
	textbookIndex = `create index on {other}.textbook (aggregate_id, id) where processed_at is null`

	textbookLock = `select pg_advisory_xact_lock(hashtextextended($1, 0))`
	textbookNext = `select id, payload from {other}.textbook
		where aggregate_id = $1 and processed_at is null order by id limit 1`
	textbookDone = `update {other}.textbook set processed_at = now() where id = $1`
)

type textbook struct {
	s                       *stage
	next, debit, done       string
	lock                    string
	fed                     int64
	aggregates, outstanding int
}

func (s *stage) newTextbook(ctx context.Context, aggregates int) (*textbook, error) {
	for _, sql := range []string{textbookTable, textbookIndex} {
		if err := s.exec(ctx, sql); err != nil {
			return nil, err
		}
	}
	return &textbook{
		s: s, lock: textbookLock, next: s.in(textbookNext), debit: s.other.debit("$1", "$2"), done: s.in(textbookDone),
		aggregates: aggregates,
	}, nil
}

// feed stores perLane more events for each aggregate; the aggregates take turns.
func (t *textbook) feed(ctx context.Context, perLane int) error {
	total, i := t.aggregates*perLane, -1
	rows := pgx.CopyFromFunc(func() ([]any, error) {
		if i++; i >= total {
			return nil, nil
		}
		a, n := i%t.aggregates, t.fed+1+int64(i/t.aggregates)
		return []any{eventID(a, n), accountID(a), "debit", payload(n)}, nil
	})
	table := pgx.Identifier{t.s.schema + "_other", "textbook"}
	columns := []string{"event_id", "aggregate_id", "event_type", "payload"}
	if _, err := t.s.pool.CopyFrom(ctx, table, columns, rows); err != nil {
		return fmt.Errorf("store events of the textbook loop: %w", err)
	}
	t.fed += int64(perLane)
	t.outstanding += perLane
	return nil
}

// run runs all events that were fed since the last run, with so many workers.
func (t *textbook) run(ctx context.Context, workers int) (side, int64, error) {
	lanes := make(chan waiting, t.aggregates)
	for a := range t.aggregates {
		lanes <- waiting{accountID(a), t.outstanding}
	}
	began := time.Now()
	err := parallel(ctx, workers, func(ctx context.Context, _ int) error { return t.work(ctx, lanes) })
	reference := side{int64(t.aggregates * t.outstanding), time.Since(began)}
	if err != nil {
		return side{}, 0, fmt.Errorf("textbook loop: %w", err)
	}
	t.outstanding = 0
	violations, err := t.s.other.audit(ctx, t.s.pool, reference.events)
	return reference, violations, err
}

// waiting is an aggregate with events to run.
type waiting struct {
	name   string
	events int
}

// work takes aggregates in turn, an event each time, until none is left for it.
func (t *textbook) work(ctx context.Context, lanes chan waiting) error {
	conn, err := t.s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	for {
		select {
		case lane := <-lanes:
			if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return t.step(ctx, tx, lane.name) }); err != nil {
				return err
			}
			if lane.events--; lane.events > 0 {
				lanes <- lane
			}
		default:
			return nil
		}
	}
}

func (t *textbook) step(ctx context.Context, tx pgx.Tx, name string) error {
	if _, err := tx.Exec(ctx, t.lock, name); err != nil {
		return err
	}
	var id int64
	var data []byte
	if err := tx.QueryRow(ctx, t.next, name).Scan(&id, &data); err != nil {
		return err
	}
	n, err := number(data)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, t.debit, name, n); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, t.done, id)
	return err
}
