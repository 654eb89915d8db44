package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/migrations"
	"github.com/inboxd/inboxd/ordering"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// stage is a migrated database with an Admin on it.
type stage struct {
	t     testing.TB
	url   string
	pool  *pgxpool.Pool
	store *inbox.Store
	*admin.Admin
}

func setup(t testing.TB) *stage {
	t.Helper()
	url := pgtest.Database(t)
	s := &stage{t: t, url: url, pool: pgtest.Pool(t, url)}
	s.store = inbox.NewStore(s.pool, "")
	s.Admin = admin.New(s.pool, "")
	conn := s.connect()
	_, _, err := migrations.Up(t.Context(), conn, inbox.DefaultSchema)
	must(t, err)
	s.exec(`create table effects (n bigint generated always as identity, aggregate_id text, event_id text, position bigint, replay boolean)`)
	return s
}

// connect opens a session apart from the pool, for the time of the test.
func (s *stage) connect() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(context.Background(), s.url)
	must(s.t, err)
	s.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stage) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.pool.Exec(context.Background(), sql, args...)
	must(s.t, err)
}

// one reads a single value.
func one[T any](s *stage, sql string, args ...any) T {
	s.t.Helper()
	var v T
	must(s.t, s.pool.QueryRow(context.Background(), sql, args...).Scan(&v))
	return v
}

// put stores n events of each of the aggregates, named "order-0" and so on; their
// ids are those of the aggregates and a number.
func (s *stage) put(eventType string, n int, aggregates ...string) {
	s.t.Helper()
	var events []inbox.Event
	for i := range n {
		for _, name := range aggregates {
			events = append(events, inbox.Event{
				ID: fmt.Sprintf("%s/%s-%d", name, eventType, i+1), AggregateID: name, Type: eventType,
				Payload: fmt.Appendf(nil, `{"n":%d}`, i+1),
			})
		}
	}
	for len(events) > 0 {
		k := min(1000, len(events))
		_, err := s.store.Put(context.Background(), events[:k])
		must(s.t, err)
		events = events[k:]
	}
}

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("order-%d", i)
	}
	return list
}

// registry has handlers that write their effect, except: events of type Broken
// fail, those of type Flaky fail at their first attempt, those of type Skipped
// are skipped.
func registry(t testing.TB) *handlers.Registry {
	t.Helper()
	reg := handlers.New()
	for _, eventType := range []string{"Paid", "Broken", "Flaky", "Skipped"} {
		handlers.On(reg, eventType, func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
			if _, err := tx.Exec(ctx, `insert into effects (aggregate_id, event_id, position, replay) values ($1, $2, $3, $4)`,
				e.AggregateID, e.ID, e.Position, e.Replay); err != nil {
				return err
			}
			switch {
			case e.Type == "Broken":
				return handlers.Permanent(errors.New("no account 17"))
			case e.Type == "Flaky" && e.Attempt == 1:
				return errors.New("not yet")
			case e.Type == "Skipped":
				return handlers.Skip(errors.New("of no interest"))
			}
			return nil
		})
	}
	return reg
}

func quick() ordering.Config {
	return ordering.Config{
		Workers: 3, Batch: 2, Sweep: 50 * time.Millisecond, UntilIdle: true,
		Retry: ordering.Retry{Initial: 5 * time.Millisecond, Max: 20 * time.Millisecond, Attempts: 3},
	}
}

// run runs processors beside each other until nothing can run any more.
func (s *stage) run(processors int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ended := make(chan error, processors)
	for range processors {
		p, err := ordering.New(s.pool, registry(s.t), quick())
		must(s.t, err)
		go func() { ended <- p.Run(ctx) }()
	}
	for range processors {
		must(s.t, <-ended)
	}
	must(s.t, ctx.Err())
}

// hold gives lanes a state, as if their heads had failed so many minutes ago.
func (s *stage) hold(state admin.State, minutes int, message, fingerprint string, aggregates ...string) {
	s.t.Helper()
	s.exec(`update inboxd.lanes set state = $1, attempts = 10, since = now() - $2 * interval '1 minute',
			error_message = $3, error_fingerprint = $4, error_at = now() - $2 * interval '1 minute',
			next_attempt_at = case when $1 = 'backoff' then now() + interval '1 hour' end
		where aggregate_id = any($5)`, string(state), minutes, message, fingerprint, aggregates)
	s.exec(`update inboxd.aggregates set parked = true where aggregate_id = any($1)`, aggregates)
}

// lanes lists what a filter means, as "aggregate state".
func (s *stage) lanes(f admin.Filter) []string {
	s.t.Helper()
	list := []string{}
	for l, err := range s.Lanes(context.Background(), f) {
		must(s.t, err)
		list = append(list, l.AggregateID+" "+string(l.State))
	}
	return list
}

func equal(t testing.TB, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%v", got), fmt.Sprintf("%v", want); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
}
