package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// stageSQL lays events beside the inbox; a deferred trigger stores them when
// the transaction commits.
const stageSQL = `
insert into {schema}.staged (event_id, aggregate_id, event_type, sequence, payload, headers, occurred_at)
select event_id, aggregate_id, event_type, sequence, payload, headers, occurred_at
from unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::jsonb[], $7::timestamptz[])
	with ordinality as u(event_id, aggregate_id, event_type, sequence, payload, headers, occurred_at, ord)
order by ord`

// knownSQL looks each id up among what is committed and among what the
// transaction staged before, by the unique index of inbox and the key of staged.
const knownSQL = `
select u.ord, k.aggregate_id = u.aggregate_id and k.event_type = u.event_type and k.payload = u.payload as same
from unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
	with ordinality as u(event_id, aggregate_id, event_type, payload, ord)
cross join lateral (
	select aggregate_id, event_type, payload from {schema}.inbox where event_id = u.event_id
	union all
	select aggregate_id, event_type, payload from {schema}.staged
	where xid = pg_current_xact_id() and event_id = u.event_id
	limit 1
) k`

// Add stores events in the caller's transaction: they are in the inbox if and
// only if it commits, and their lanes are woken then. They get their positions
// just before the commit, so that a long transaction holds up no one else who
// stores events of the same aggregates.
//
// The answer says what is known of each event now. Should somebody else store
// the same id before the caller commits, that event is dropped at the commit as
// the duplicate it then is.
//
// Events are validated first; an invalid one is an error that stages nothing.
// Any other error leaves tx failed, as an error of any statement does.
func (s *Store) Add(ctx context.Context, tx pgx.Tx, events ...Event) ([]Outcome, error) {
	if len(events) == 0 {
		return nil, nil
	}
	args, err := columns(events)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(events))
	seen := make(map[string]int, len(events))
	for i := range events {
		outcomes[i] = Stored
		if first, ok := seen[events[i].ID]; ok {
			outcomes[i] = compare(&events[first], &events[i])
		} else {
			seen[events[i].ID] = i
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(s.knownSQL, args[0], args[1], args[2], args[4]).Query(func(rows pgx.Rows) error {
		var ord int
		var same bool
		_, err := pgx.ForEachRow(rows, []any{&ord, &same}, func() error {
			outcomes[ord-1] = Conflict
			if same {
				outcomes[ord-1] = Duplicate
			}
			return nil
		})
		return err
	})
	batch.Queue(s.stageSQL, args[:7]...)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("add %d events: %w", len(events), err)
	}
	return outcomes, nil
}

func compare(stored, again *Event) Outcome {
	if stored.AggregateID == again.AggregateID && stored.Type == again.Type && string(stored.Payload) == string(again.Payload) {
		return Duplicate
	}
	return Conflict
}
