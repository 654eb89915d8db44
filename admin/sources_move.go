package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// OffsetMove says where a consumer group goes on reading a partition.
type OffsetMove struct {
	Partition int32 `json:"partition"`
	// From is the offset that the group had; nil: none.
	From *int64 `json:"from"`
	To   int64  `json:"to"`
}

// ErrNotRecorded is returned when something was done outside of the database that
// could not be put on record in it.
var ErrNotRecorded = errors.New("it was done, but could not be put on record")

const (
	auditMoveSQL = `insert into {schema}.audit (actor, action, reason, detail)
values (session_user || coalesce('/' || nullif($1, ''), ''), 'reset', nullif($2, ''), $3)`

	// By the primary key. What was wrong with the old offset is over.
	movedSQL = `update {schema}.sources s
set topic_id = null, position = m."to", committed = m."to", state = 'left', member = null, process = null, error_message = null, error_at = null
from jsonb_to_recordset($3::jsonb) m(partition integer, "to" bigint)
where s.consumer_group = $1 and s.topic = $2 and s.partition = m.partition`
)

// MoveOffsets puts a move of a group's offsets on record, and calls move to do it
// in Kafka before that is committed: what fails there leaves no record. The error
// is ErrNotRecorded if it is the other way round.
func (a *Admin) MoveOffsets(ctx context.Context, by By, group, topic string, moves []OffsetMove, move func(context.Context) error) error {
	list, err := json.Marshal(moves)
	if err != nil {
		return err
	}
	detail, err := json.Marshal(map[string]any{"group": group, "topic": topic, "partitions": moves})
	if err != nil {
		return err
	}
	moved := false
	err = a.change(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, a.in(auditMoveSQL), cleaned(by.Actor), cleaned(by.Reason), detail); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, a.in(movedSQL), cleaned(group), cleaned(topic), list); err != nil {
			return err
		}
		err := move(ctx)
		moved = err == nil
		return err
	})
	if err != nil && moved {
		return fmt.Errorf("%w: %w", ErrNotRecorded, err)
	}
	return err
}
