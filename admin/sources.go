package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// SourcePartition is how far ingest is with one partition of a topic, as the
// process that reads it has written it: every few seconds, and some ten seconds
// apart when nothing changes. Its JSON is stable.
type SourcePartition struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// State is reading; retrying, when records could not be stored and are tried
	// again; stopped, when the next offset is not in the broker's log, and a
	// person has to decide; missing, when the topic is not there; left, when
	// nobody reads the partition, as far as is known.
	State string `json:"state"`
	// Position is the offset before which all is stored. Committed is the offset
	// that the group has in Kafka, End the one up to which records can be read.
	// Nil: not known.
	Position  *int64 `json:"position"`
	Committed *int64 `json:"committed"`
	End       *int64 `json:"end"`
	// Lag is how many offsets there are from Position to End. The database alone
	// does not know it: it is nil.
	Lag *int64 `json:"lag"`
	// What became of records, in all processes so far.
	Stored      int64 `json:"stored"`
	Duplicates  int64 `json:"duplicates"`
	Conflicts   int64 `json:"conflicts"`
	Quarantined int64 `json:"quarantined"`
	Ignored     int64 `json:"ignored"`
	// Member is the member of the group that reads it, Process its host and
	// number there. Nil: nobody does, as far as is known.
	Member  *string `json:"member"`
	Process *string `json:"process"`
	// SeenAt is when that was written. Nil: nobody has read it yet.
	SeenAt *time.Time `json:"seen_at"`
	// Error is what went wrong last, and may be over. Nil: nothing did.
	Error *SourceError `json:"error"`
}

// SourceError is what went wrong with a partition.
type SourceError struct {
	Message string     `json:"message"`
	At      *time.Time `json:"at"`
}

// By the primary key.
const sourcesSQL = `select topic, partition, state, position, committed, end_offset,
	stored, duplicates, conflicts, quarantined, ignored, member, process, seen_at, error_message, error_at
from {schema}.sources
where consumer_group = $1
order by topic, partition`

// Sources answers for all partitions that a consumer group has read, by topic
// and number.
func (a *Admin) Sources(ctx context.Context, group string) ([]SourcePartition, error) {
	rows, err := a.db.Query(ctx, a.in(sourcesSQL), cleaned(group))
	if err != nil {
		return nil, fmt.Errorf("list sources: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (SourcePartition, error) {
		p := SourcePartition{Group: group}
		var message *string
		var at *time.Time
		err := row.Scan(&p.Topic, &p.Partition, &p.State, &p.Position, &p.Committed, &p.End,
			&p.Stored, &p.Duplicates, &p.Conflicts, &p.Quarantined, &p.Ignored, &p.Member, &p.Process, &p.SeenAt, &message, &at)
		if message != nil {
			p.Error = &SourceError{*message, utc(at)}
		}
		p.SeenAt = utc(p.SeenAt)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("list sources: %w", err)
	}
	return list, nil
}

// DedupWindow is how far back the inbox remembers the ids of events. Records that
// it remembers can be read again at no cost but time: they are duplicates.
type DedupWindow struct {
	// Since: every event that was stored at or after it is remembered.
	Since time.Time
	// Whole: so is every event before it. Nothing was forgotten yet.
	Whole bool
}

// Events are forgotten a whole segment at a time, the oldest first; the first of
// all is number 1.
const dedupWindowSQL = `select min(segment), min(opened_at) from {schema}.segments`

// DedupWindow answers how far back ids are remembered now.
func (a *Admin) DedupWindow(ctx context.Context) (DedupWindow, error) {
	var first int32
	var w DedupWindow
	if err := a.db.QueryRow(ctx, a.in(dedupWindowSQL)).Scan(&first, &w.Since); err != nil {
		return DedupWindow{}, fmt.Errorf("read how far back event ids are remembered: %w", err)
	}
	w.Since, w.Whole = w.Since.UTC(), first == 1
	return w, nil
}
