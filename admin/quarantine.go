package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// Quarantined is a record that could not become an event. Its JSON is stable.
type Quarantined struct {
	ID         int64     `json:"id"`
	ReceivedAt time.Time `json:"received_at"`
	// Reason is a short word to group by, Detail a sentence.
	Reason string `json:"reason"`
	Detail string `json:"detail"`
	// Source is where it came from; nil if not from Kafka.
	Source *Source `json:"source"`
	// Size is the length of the value in bytes.
	Size int64 `json:"size"`
}

// QuarantinedDetail is a quarantined record with its bytes.
type QuarantinedDetail struct {
	Quarantined
	// Key is nil if the record had none, Value if it was a tombstone.
	Key     []byte  `json:"key_base64"`
	Value   []byte  `json:"value_base64"`
	Headers Headers `json:"headers"`

	recordTime time.Time // the record's own; zero: it had none
}

// QuarantineFilter says which records are meant. The zero QuarantineFilter means
// all.
type QuarantineFilter struct {
	// Reason is Quarantined.Reason.
	Reason string
	// Topic is the topic that the records came from.
	Topic string
	// From and Until bound Quarantined.ReceivedAt: From ≤ it < Until. Zero: no
	// bound.
	From, Until time.Time
	// OldestFirst has them in the order in which they came; else the newest is the
	// first.
	OldestFirst bool
	// Limit is how many records there are at most. 0: all.
	Limit int
}

func (f QuarantineFilter) validate() error { return checkList(f.Limit, f.From, f.Until) }

func (f QuarantineFilter) conditions() *query {
	q := &query{}
	q.and("true")
	if f.Reason != "" {
		q.and("reason = " + q.arg(cleaned(f.Reason)))
	}
	if f.Topic != "" {
		q.and("source_topic = " + q.arg(cleaned(f.Topic)))
	}
	if !f.From.IsZero() {
		q.and("received_at >= " + q.arg(f.From))
	}
	if !f.Until.IsZero() {
		q.and("received_at < " + q.arg(f.Until))
	}
	return q
}

const (
	quarantinedColumnsSQL = `id, received_at, reason, detail, source_topic, source_partition, source_offset,
	coalesce(octet_length(value), 0)`

	quarantineRecordSQL = `select ` + quarantinedColumnsSQL + `, key, value, headers, record_time
from {schema}.quarantine
where id = $1`
)

// Quarantine lists records in quarantine, the newest first unless the filter says
// otherwise, in pages by key. It ends at the first error.
func (a *Admin) Quarantine(ctx context.Context, f QuarantineFilter) iter.Seq2[Quarantined, error] {
	return func(yield func(Quarantined, error) bool) {
		err := a.quarantinePages(ctx, f, func(page []Quarantined) error {
			for _, q := range page {
				if !yield(q, nil) {
					return errEnough
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(Quarantined{}, err)
		}
	}
}

// By the primary key.
const newestQuarantinedSQL = `select coalesce(max(id), 0) from {schema}.quarantine`

// quarantinePages gives what a filter means to f, page by page: what was in
// quarantine when it began, each record once. It reads by the primary key, from
// either end.
func (a *Admin) quarantinePages(ctx context.Context, filter QuarantineFilter, f func([]Quarantined) error) error {
	if err := filter.validate(); err != nil {
		return err
	}
	var newest int64
	if err := a.db.QueryRow(ctx, a.in(newestQuarantinedSQL)).Scan(&newest); err != nil {
		return fmt.Errorf("list quarantine: %w", err)
	}
	left, after, before := filter.Limit, int64(0), newest+1
	for {
		size := PageSize
		if filter.Limit > 0 {
			size = min(left, PageSize)
		}
		page, err := a.quarantinePage(ctx, filter, after, before, size)
		if err != nil {
			return fmt.Errorf("list quarantine: %w", err)
		}
		if len(page) == 0 {
			return nil
		}
		if err := f(page); err != nil {
			return err
		}
		if last := page[len(page)-1].ID; filter.OldestFirst {
			after = last
		} else {
			before = last
		}
		if left -= len(page); len(page) < size || left == 0 {
			return nil
		}
	}
}

func (a *Admin) quarantinePage(ctx context.Context, f QuarantineFilter, after, before int64, size int) ([]Quarantined, error) {
	q := f.conditions()
	q.and("id > " + q.arg(after))
	q.and("id < " + q.arg(before))
	order := "id desc"
	if f.OldestFirst {
		order = "id"
	}
	sql := `select ` + quarantinedColumnsSQL + `
from {schema}.quarantine
where ` + strings.Join(q.where, "\n\tand ") + `
order by ` + order + `
limit ` + q.arg(size)
	return collect(ctx, a.db, func(row pgx.CollectableRow) (Quarantined, error) { return scanQuarantined(row) }, a.in(sql), q.args...)
}

// CountQuarantine answers how many records the filter means; Limit does not
// count.
func (a *Admin) CountQuarantine(ctx context.Context, f QuarantineFilter) (int, error) {
	if err := f.validate(); err != nil {
		return 0, err
	}
	q := f.conditions()
	var n int
	sql := `select count(*) from {schema}.quarantine where ` + strings.Join(q.where, " and ")
	if err := a.db.QueryRow(ctx, a.in(sql), q.args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("count quarantine: %w", err)
	}
	return n, nil
}

// QuarantineRecord looks a record up by its id.
func (a *Admin) QuarantineRecord(ctx context.Context, id int64) (*QuarantinedDetail, error) {
	d, err := a.quarantineRecord(ctx, a.db, quarantineRecordSQL, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("read record %d of the quarantine: %w", id, err)
	}
	return d, err
}

func (a *Admin) quarantineRecord(ctx context.Context, db interface {
	QueryRow(context.Context, string, ...any) pgx.Row
}, sql string, id int64) (*QuarantinedDetail, error) {
	var d QuarantinedDetail
	var headers []byte
	var at *time.Time
	var err error
	d.Quarantined, err = scanQuarantined(db.QueryRow(ctx, a.in(sql), id), &d.Key, &d.Value, &headers, &at)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, notFound("there is no record %d in quarantine", id)
	}
	if err != nil {
		return nil, err
	}
	if at != nil {
		d.recordTime = at.UTC()
	}
	d.Headers, err = inbox.DecodeHeaders(headers)
	return &d, err
}

func scanQuarantined(row pgx.Row, more ...any) (Quarantined, error) {
	var q Quarantined
	var topic *string
	var partition *int32
	var offset *int64
	dest := []any{&q.ID, &q.ReceivedAt, &q.Reason, &q.Detail, &topic, &partition, &offset, &q.Size}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return Quarantined{}, err
	}
	q.ReceivedAt = q.ReceivedAt.UTC()
	q.Source = source(topic, partition, offset)
	return q, nil
}
