package ordering_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/ordering"
)

// logged is a log that a test reads while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), s)
}

// A connection that takes LISTEN and hears nothing, as behind a pooler, is told
// of once; the sweep finds all meanwhile, and nobody stays on that connection.
func TestDeafListener(t *testing.T) {
	t.Parallel()
	s := setup(t)
	elsewhere := pgtest.Database(t)
	log, opened := &logged{}, make(chan *pgx.Conn, 8)
	cfg := quick()
	cfg.UntilIdle = false
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	cfg.Connect = func(ctx context.Context) (*pgx.Conn, error) {
		conn, err := pgx.Connect(ctx, elsewhere)
		if err == nil {
			opened <- conn
		}
		return conn, err
	}
	p := s.start(sqlRegistry(t, "E0", "E1"), cfg)
	s.put("E0", 10, 3)
	s.done(30)
	counts(t, p, "the warning", func(ordering.Stats) bool { return log.count("notifications do not arrive") == 1 })
	if conn := <-opened; !conn.IsClosed() {
		t.Error("the connection that hears nothing is kept")
	}
	s.put("E1", 10, 3)
	s.done(60)
	s.inOrder(60)
	if st := p.Stats(); st.Swept != 60 {
		t.Errorf("%+v, want that the sweep found all 60 events", st)
	}
	select {
	case <-opened:
		t.Error("it connected again at once")
	case <-time.After(2 * time.Second): // four times the delay after a lost connection
	}
}

// A listener with a way of its own hears what the pool's way would not let
// through.
func TestListenerGoesPastThePooler(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.pool = pgtest.Pool(t, pgtest.Pooler(t, s.url))
	cfg := seldom()
	cfg.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, s.url) }
	s.put("First", 1, 1)
	s.start(sqlRegistry(t, "First", "Paid"), cfg)
	s.done(1)
	s.listening()
	s.put("Paid", 10, 3) // by a Store that tells nobody but by NOTIFY
	s.done(31)
	s.inOrder(31)
}

// What a handler did to its session ends with the turn behind a pooler too. What
// the session had before is not carried into other sessions, except for what the
// pooler has in each of them.
func TestSessionsBehindAPooler(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 4, 6)
	config, err := pgxpool.ParseConfig(pgtest.Pooler(t, s.url))
	must(t, err)
	config.ConnConfig.RuntimeParams["application_name"] = "shop"
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { // another client's, as far as anybody knows
		_, err := conn.Exec(ctx, `set work_mem to '5MB'`)
		return err
	}
	s.pool = pgtest.PoolConfig(t, config)
	reg := handlers.New()
	handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
		for _, sql := range []string{`set search_path to nowhere`, `set application_name to 'mine'`, `select pg_advisory_lock(4711)`,
			`create temp table if not exists left_behind (n int)`} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `insert into public.effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Position)
		return err
	})
	cfg := quick()
	cfg.Workers = 1 // all turns in the session that is looked at
	s.run(reg, cfg)
	s.inOrder(24)
	used := 0
	for _, conn := range s.pool.AcquireAllIdle(context.Background()) {
		var name, source, memory, path string
		var tables, locks int
		must(t, conn.QueryRow(context.Background(), `select setting, source, current_setting('work_mem'), current_setting('search_path'),
			(select count(*) from pg_class where relpersistence = 't' and relkind = 'r' and relnamespace = pg_my_temp_schema()),
			(select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory') from pg_settings where name = 'application_name'`).Scan(&name, &source, &memory, &path, &tables, &locks))
		if memory == "4MB" {
			used++
			if source != "session" {
				t.Errorf("after the reset the pooler did not hear of application_name again: it is the %s's", source)
			}
		}
		if name != "shop" || path == "nowhere" || tables+locks > 0 {
			t.Errorf("application_name %q, search_path %q, %d tables, %d locks", name, path, tables, locks)
		}
		conn.Release()
	}
	if used == 0 {
		t.Error("no session was put back to what the server has")
	}
}

func TestDryRunNeedsASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", 1, 1)
	s.pool = pgtest.Pool(t, pgtest.Pooler(t, s.url))
	p, err := ordering.New(s.pool, sqlRegistry(t, "Paid"), quick())
	must(t, err)
	if _, err := p.DryRun(t.Context(), "agg-0"); !errors.Is(err, ordering.ErrPooler) {
		t.Errorf("got %v, want ErrPooler", err)
	}
}
