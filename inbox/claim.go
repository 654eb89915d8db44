package inbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// claimSQL answers no row if the claim is there. By the primary key of claims; it
// waits for a transaction that is about to write the same claim.
const claimSQL = `insert into {schema}.claims (consumer, event_id) values ($1, $2)
on conflict do nothing returning true`

// Claim is for a team that runs its own consumer: it claims an event for a
// consumer in the caller's transaction and says whether this is the first claim
// of it. What the event does belongs into the same transaction, and only if it is
// the first; a duplicate is acknowledged and nothing more. The claim stands if
// and only if tx commits. Consumers are apart: each may claim an event once.
//
// Of two transactions that claim the same event at once, the second waits for the
// first to end. If that committed the second is told that it is not the first,
// and if it rolled back that it is. In a transaction stricter than read committed,
// a claim that was committed since tx began is a serialization failure (40001)
// instead: run it again then, and it is a duplicate.
//
// Claims are kept until ForgetClaims, and an event that is delivered again after
// that is taken for a new one.
//
// An id or a consumer that is empty, longer than MaxName, or no text is an
// ErrInvalid, and leaves tx as it was.
func (s *Store) Claim(ctx context.Context, tx pgx.Tx, consumer, eventID string) (first bool, err error) {
	if tx == nil {
		return false, claimError(consumer, eventID, errNilTx)
	}
	if err := s.checkClaim(consumer, eventID); err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, s.sql.claim, consumer, eventID).Scan(&first)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, claimError(consumer, eventID, s.unmigrated(err))
	}
	return first, nil
}

// ClaimSQL is Claim in a transaction of database/sql.
func (s *Store) ClaimSQL(ctx context.Context, tx SQLTx, consumer, eventID string) (first bool, err error) {
	if err := s.checkClaim(consumer, eventID); err != nil {
		return false, err
	}
	if err := checkTransaction(ctx, tx); err != nil {
		return false, claimError(consumer, eventID, err)
	}
	err = tx.QueryRowContext(ctx, s.sql.claim, consumer, eventID).Scan(&first)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, claimError(consumer, eventID, s.unmigrated(err))
	}
	return first, nil
}

func (s *Store) checkClaim(consumer, eventID string) error {
	err := s.err
	if err == nil {
		err = checkName("consumer", consumer)
	}
	if err == nil {
		err = checkName("event_id", eventID)
	}
	if err != nil {
		return claimError(consumer, eventID, err)
	}
	return nil
}

func claimError(consumer, eventID string, err error) error {
	return fmt.Errorf("claim event %.100q for consumer %.100q: %w", eventID, consumer, err)
}

// forgetSQL deletes a batch, by the index of claims on their time.
const forgetSQL = `select forgotten, last from {schema}.forget_claims($1, clock_timestamp() - $2::interval, $3)`

// forgetBatch is how many claims are deleted in one transaction. It takes a
// fraction of a second, and whoever claims one of them waits for as long.
const forgetBatch = 5000

// ForgetClaims deletes the claims of all consumers that are older than that, by
// the database's clock, in small transactions of their own, and answers how many
// it deleted, also with an error. It is for a job that runs every hour or so; two
// at once do no harm.
//
// An event that is delivered again after its claim is forgotten takes effect
// again. So claims have to be kept for longer than the broker can deliver a
// message again: longer than the topic's retention, if consumers may be set back
// to its beginning.
func (s *Store) ForgetClaims(ctx context.Context, olderThan time.Duration) (forgotten int64, err error) {
	if err := s.usable(); err != nil {
		return 0, fmt.Errorf("forget claims: %w", err)
	}
	if olderThan <= 0 {
		return 0, &invalid{fmt.Sprintf("forget claims: the age is %s, but must be longer than 0", olderThan)}
	}
	after := time.Time{}
	for {
		var n int64
		var last *time.Time
		if err := s.db.QueryRow(ctx, s.sql.forget, after, olderThan, forgetBatch).Scan(&n, &last); err != nil {
			return forgotten, fmt.Errorf("forget claims: %w", s.unmigrated(err))
		}
		forgotten += n
		if n < forgetBatch {
			return forgotten, nil
		}
		after = *last
	}
}
