package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// stageSQL lays events beside the inbox; a deferred trigger stores them when
// the transaction commits. See stage() in the migrations.
const stageSQL = `select {schema}.stage($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::jsonb[], $7::timestamptz[])`

// Add stores events in the caller's transaction: they are in the inbox if and
// only if it commits, and their lanes are woken then. They get their positions
// just before the commit, so that a long transaction holds up no one else who
// stores events of the same aggregates.
//
// The answer says what is known of each event now; a duplicate of what is stored,
// or was added before, is left out at once. Should somebody else store the same id
// before the caller commits, that event is dropped at the commit as the duplicate
// it then is.
//
// The commit waits for others who are just storing events of the same aggregates,
// each in a transaction that ends at once. In a transaction stricter than read
// committed it fails with a serialization failure (40001) if one of them, or the
// same event, was stored since the transaction began: run it again then. A
// transaction with an Add cannot be prepared for a two-phase commit.
//
// Events are validated first; an invalid one is an ErrInvalid that stages nothing
// and leaves tx as it was. Any other error leaves tx failed, as an error of any
// statement does.
func (s *Store) Add(ctx context.Context, tx pgx.Tx, events ...Event) ([]Outcome, error) {
	return s.add(events, func(c *columns) (outcomes string, err error) {
		if tx == nil {
			return "", errNilTx
		}
		err = tx.QueryRow(ctx, s.sql.stage, c.stageArgs()...).Scan(&outcomes)
		return outcomes, err
	})
}

// errNilTx is the answer to a nil transaction.
var errNilTx = &invalid{"the transaction is nil"}

func (s *Store) add(events []Event, stage func(*columns) (outcomes string, err error)) ([]Outcome, error) {
	if s.err != nil {
		return nil, fmt.Errorf("add %d events: %w", len(events), s.err)
	}
	if len(events) == 0 {
		return nil, nil
	}
	c, err := columnsOf(events)
	if err != nil {
		return nil, err
	}
	outcomes, err := stage(c)
	if err != nil {
		return nil, fmt.Errorf("add %d events: %w", len(events), s.unmigrated(err))
	}
	return []Outcome(outcomes), nil
}
