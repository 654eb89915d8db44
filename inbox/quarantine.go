package inbox

import (
	"strings"
	"time"
	"unicode/utf8"
)

// quarantineSQL keeps a record once a source, by the unique constraint on it.
const quarantineSQL = `
insert into {schema}.quarantine (reason, detail, source_topic, source_partition, source_offset,
	record_time, key, value, headers)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9::jsonb)
on conflict on constraint quarantine_source do nothing`

type refusedRecord struct {
	record  *Record
	refusal *Refusal
}

func (r refusedRecord) args() []any {
	var topic *string
	var partition *int32
	var offset *int64
	if s := r.record.Source; !s.IsZero() {
		topic, partition, offset = &s.Topic, &s.Partition, &s.Offset
	}
	var recordTime *time.Time
	if t := storableTime(r.record.Time); !t.IsZero() {
		recordTime = &t
	}
	headers, err := EncodeHeaders(r.record.Headers)
	if err != nil { // strings and byte slices always encode
		headers = nil
	}
	return []any{clean(r.refusal.Reason), clean(r.refusal.Detail), topic, partition, offset,
		recordTime, r.record.Key, r.record.Value, textOrNull(headers)}
}

// clean makes a text storable that may quote what it found.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return strings.ReplaceAll(s, "\x00", "\uFFFD")
}
