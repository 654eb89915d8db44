package ordering_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/migrations"
)

// Two processors in one process, on one pool, each with a schema of its own, and
// business tables in a third: they neither see nor wake each other, though their
// aggregates and events have the same names.
func TestTwoSchemasInOneProcess(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.exec(`create schema "Shop Inbox"`)
	s.exec(`create schema business create table ledger (n bigint generated always as identity, schema text, event_id text, position bigint)`)
	conn, err := pgx.Connect(context.Background(), s.url)
	must(t, err)
	defer conn.Close(context.Background())
	_, _, err = migrations.Up(context.Background(), conn, "Shop Inbox")
	must(t, err)

	for _, schema := range []string{"inboxd", "Shop Inbox"} {
		reg := handlers.New()
		handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
			_, err := tx.Exec(ctx, `insert into business.ledger (schema, event_id, position) values ($1, $2, $3)`, schema, e.ID, e.Position)
			return err
		})
		cfg := quick()
		cfg.UntilIdle, cfg.Schema = false, schema
		p := s.start(reg, cfg)
		store := inbox.NewStore(s.pool, schema, inbox.OnStored(p.Wake), inbox.ForProcess(p.ProcessID))
		for i := range 20 {
			_, err := store.Put(context.Background(), []inbox.Event{{ID: fmt.Sprint("e", i), AggregateID: "a", Type: "Paid", Payload: []byte("{}")}})
			must(t, err)
		}
	}
	s.until(`select count(*) = 40 and count(distinct (schema, event_id)) = 40 from business.ledger`)
	if n := one[int](s, `select count(*) from (
		select position, lag(position) over (partition by schema order by n) as before from business.ledger) l
		where position <> coalesce(before, 0) + 1`); n != 0 {
		t.Errorf("%d effects out of order", n)
	}
	for _, schema := range []string{"inboxd", "Shop Inbox"} {
		if n := one[int](s, `select count(*) from `+pgx.Identifier{schema}.Sanitize()+`.events where processed_at is null`); n != 0 {
			t.Errorf("schema %s has %d events that have not run", schema, n)
		}
	}
}
