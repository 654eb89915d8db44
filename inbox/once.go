package inbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Once makes of next a function that runs it once for each message, however often
// the message is delivered: it claims the message's event for the consumer in the
// transaction that it is given, and calls next in it if the claim is the first. A
// duplicate is nil without running, so that whoever called acknowledges it. See
// Store.Claim.
//
//	pay := inbox.Once(store, "billing", func(m Message) (string, error) { return m.ID, nil }, charge)
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return pay(ctx, tx, m) })
//
// The transaction is the caller's: it has to be rolled back when an error is
// returned, and the message acknowledged only after it was committed.
//
// id finds the id of a message's event. It has to be the producer's, the same each
// time the message is sent; an error of it is returned as it is. Once panics if it
// is told of no store, consumer, id or next.
func Once[M any](
	s *Store, consumer string, id func(M) (string, error), next func(context.Context, pgx.Tx, M) error,
) func(context.Context, pgx.Tx, M) error {
	return once("Once", s, consumer, (*Store).Claim, id, next)
}

// OnceSQL is Once for transactions of database/sql: T is *sql.Tx, or a type of
// one's own that has its methods.
func OnceSQL[T SQLTx, M any](
	s *Store, consumer string, id func(M) (string, error), next func(context.Context, T, M) error,
) func(context.Context, T, M) error {
	claim := func(s *Store, ctx context.Context, tx T, consumer, eventID string) (bool, error) {
		return s.ClaimSQL(ctx, tx, consumer, eventID)
	}
	return once("OnceSQL", s, consumer, claim, id, next)
}

func once[T, M any](
	caller string, s *Store, consumer string, claim func(s *Store, ctx context.Context, tx T, consumer, eventID string) (bool, error),
	id func(M) (string, error), next func(context.Context, T, M) error,
) func(context.Context, T, M) error {
	switch {
	case s == nil:
		panic("inbox: " + caller + " was given no store")
	case s.err != nil:
		panic(fmt.Sprintf("inbox: %s: %v", caller, s.err))
	case id == nil:
		panic("inbox: " + caller + " was given no function that finds a message's id")
	case next == nil:
		panic("inbox: " + caller + " was given no function to run")
	}
	if err := checkName("consumer", consumer); err != nil {
		panic(fmt.Sprintf("inbox: %s: %v", caller, err))
	}
	return func(ctx context.Context, tx T, m M) error {
		eventID, err := id(m)
		if err != nil {
			return err
		}
		first, err := claim(s, ctx, tx, consumer, eventID)
		if err != nil || !first {
			return err
		}
		return next(ctx, tx, m)
	}
}
