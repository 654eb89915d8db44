package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
}

// QuarantineFilter says which records are meant. The zero QuarantineFilter means
// all.
type QuarantineFilter struct {
	// Limit is how many records there are at most. 0: all.
	Limit int
}

const (
	quarantinedColumnsSQL = `id, received_at, reason, detail, source_topic, source_partition, source_offset,
	coalesce(octet_length(value), 0)`

	// By the primary key, from the newest on.
	quarantineSQL = `select ` + quarantinedColumnsSQL + `
from {schema}.quarantine
where id < $1
order by id desc
limit $2`

	quarantineRecordSQL = `select ` + quarantinedColumnsSQL + `, key, value, headers
from {schema}.quarantine
where id = $1`

	countQuarantineSQL = `select count(*) from {schema}.quarantine`
)

// Quarantine lists records in quarantine, the newest first. It ends at the first
// error.
func (a *Admin) Quarantine(ctx context.Context, f QuarantineFilter) iter.Seq2[Quarantined, error] {
	return func(yield func(Quarantined, error) bool) {
		if f.Limit < 0 {
			yield(Quarantined{}, invalid("the limit is %d, but must not be negative", f.Limit))
			return
		}
		left, before := f.Limit, int64(1<<63-1)
		for {
			size := PageSize
			if f.Limit > 0 {
				size = min(left, PageSize)
			}
			page, err := a.quarantinePage(ctx, before, size)
			if err != nil {
				yield(Quarantined{}, err)
				return
			}
			for _, q := range page {
				if !yield(q, nil) {
					return
				}
				before = q.ID
			}
			if left -= len(page); len(page) < size || left == 0 {
				return
			}
		}
	}
}

func (a *Admin) quarantinePage(ctx context.Context, before int64, size int) ([]Quarantined, error) {
	rows, err := a.db.Query(ctx, a.in(quarantineSQL), before, size)
	if err != nil {
		return nil, fmt.Errorf("list quarantine: %w", err)
	}
	page, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Quarantined, error) { return scanQuarantined(row) })
	if err != nil {
		return nil, fmt.Errorf("list quarantine: %w", err)
	}
	return page, nil
}

// CountQuarantine answers how many records are in quarantine.
func (a *Admin) CountQuarantine(ctx context.Context) (int, error) {
	var n int
	if err := a.db.QueryRow(ctx, a.in(countQuarantineSQL)).Scan(&n); err != nil {
		return 0, fmt.Errorf("count quarantine: %w", err)
	}
	return n, nil
}

// QuarantineRecord looks a record up by its id.
func (a *Admin) QuarantineRecord(ctx context.Context, id int64) (*QuarantinedDetail, error) {
	var d QuarantinedDetail
	var headers []byte
	var err error
	d.Quarantined, err = scanQuarantined(a.db.QueryRow(ctx, a.in(quarantineRecordSQL), id), &d.Key, &d.Value, &headers)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, notFound("there is no record %d in quarantine", id)
	}
	if err != nil {
		return nil, fmt.Errorf("read record %d of the quarantine: %w", id, err)
	}
	decoded, err := inbox.DecodeHeaders(headers)
	if err != nil {
		return nil, fmt.Errorf("read record %d of the quarantine: %w", id, err)
	}
	d.Headers = decoded
	return &d, nil
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
