package ordering_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/pgtest"
	"github.com/inboxd/inboxd/internal/postgres"
	"github.com/inboxd/inboxd/ordering"
)

// setupServer is setup on a server of the test's own.
func setupServer(t *testing.T) (*stage, *postgres.Server) {
	t.Helper()
	server := pgtest.Server(t)
	config, err := pgxpool.ParseConfig(server.URL())
	must(t, err)
	config.MaxConns = 24
	s := &stage{t: t, url: server.URL(), pool: pgtest.PoolConfig(t, config)}
	s.migrate()
	s.exec(effectsTable)
	s.store = inbox.NewStore(s.pool, "")
	return s, server
}

// eventually retries a query until it succeeds and is true.
func (s *stage) eventually(sql string, args ...any) {
	s.t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var ok bool
		if err := s.pool.QueryRow(context.Background(), sql, args...).Scan(&ok); err == nil && ok {
			return
		}
		select {
		case <-deadline:
			s.t.Fatalf("never came true: %s", sql)
		case <-tick.C:
		}
	}
}

// syncBuffer collects logs.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// PostgreSQL is restarted, its sessions are ended, it is away for a while:
// processing goes on by itself, every event takes effect once, and no attempt is
// used up.
func TestOutages(t *testing.T) {
	faults := map[string]func(*testing.T, *stage, *postgres.Server){
		"fast restart": func(t *testing.T, _ *stage, server *postgres.Server) {
			must(t, server.Restart(t.Context(), postgres.Clean))
		},
		"immediate restart": func(t *testing.T, _ *stage, server *postgres.Server) {
			must(t, server.Restart(t.Context(), postgres.Immediate))
		},
		"terminated sessions": func(_ *testing.T, s *stage, _ *postgres.Server) {
			for range 5 {
				_, _ = s.pool.Exec(context.Background(),
					`select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'`)
			}
		},
		"read only": func(t *testing.T, s *stage, _ *postgres.Server) {
			s.exec(`alter system set default_transaction_read_only = on`)
			s.exec(`select pg_reload_conf()`)
			s.eventually(`select current_setting('default_transaction_read_only') = 'on'`)
			pause := time.NewTimer(300 * time.Millisecond)
			<-pause.C
			conn, err := pgx.Connect(t.Context(), s.url)
			must(t, err)
			defer conn.Close(context.Background())
			_, err = conn.Exec(t.Context(), `set default_transaction_read_only = off`)
			must(t, err)
			_, err = conn.Exec(t.Context(), `alter system reset default_transaction_read_only`)
			must(t, err)
			_, err = conn.Exec(t.Context(), `select pg_reload_conf()`)
			must(t, err)
		},
	}
	for name, fault := range faults {
		for _, form := range []string{"on", "queue"} {
			t.Run(name+"/"+form, func(t *testing.T) {
				t.Parallel()
				s, server := setupServer(t)
				s.put("Paid", 40, 60)
				var ran atomic.Int64
				started := make(chan struct{})
				note := func() {
					if ran.Add(1) == 300 {
						close(started)
					}
				}
				reg := handlers.New()
				if form == "on" {
					handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
						note()
						return effect(ctx, tx, e.Message)
					})
				} else {
					handlers.OnQueue(reg, "Paid", func(_ context.Context, b *pgx.Batch, e handlers.Event[[]byte]) error {
						note()
						b.Queue(`insert into effects (aggregate_id, event_id, position) values ($1, $2, $3)`, e.AggregateID, e.ID, e.Position)
						return nil
					})
				}
				var logs syncBuffer
				cfg := quick()
				cfg.UntilIdle = false
				cfg.Batch = 4
				cfg.Log = slog.New(slog.NewTextHandler(&logs, nil))
				s.start(reg, cfg)
				<-started
				fault(t, s, server)
				s.eventually(`select count(*) = 2400 from effects`)
				s.inOrder(2400)
				if n := one[int](s, `select count(*) from inboxd.failures`); n != 0 {
					t.Errorf("the outage used up %d attempts", n)
				}
				if n := strings.Count(logs.String(), "out of reach"); n != 1 {
					t.Errorf("the outage was logged %d times", n)
				}
			})
		}
	}
}

// A stop while the database is away is clean if nothing that ran was lost.
func TestStopDuringOutage(t *testing.T) {
	t.Parallel()
	s, server := setupServer(t)
	s.put("Paid", 2, 2)
	p, err := ordering.New(s.pool, sqlRegistry(t, "Paid"), quick())
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cfgDone := make(chan error, 1)
	must(t, server.Kill())
	go func() { cfgDone <- p.Run(ctx) }()
	cancel()
	select {
	case err := <-cfgDone:
		if err != nil {
			t.Errorf("run: %v", err)
		}
	case <-time.After(15 * time.Second):
		t.Fatal("run does not return while the database is away")
	}
	must(t, server.Restart(t.Context(), postgres.Clean))
}

// A stop lets what runs finish; a stop with a deadline rolls it back and says so.
func TestStopDrains(t *testing.T) {
	for _, finish := range []bool{true, false} {
		name := map[bool]string{true: "in time", false: "past the deadline"}[finish]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.put("Paid", 1, 2)
			entered, release := make(chan struct{}), make(chan struct{})
			reg := handlers.New()
			handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
				if err := effect(ctx, tx, e.Message); err != nil || e.Position > 1 {
					return err
				}
				close(entered)
				select {
				case <-release:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			cfg := quick()
			cfg.UntilIdle = false
			cfg.Batch = 1
			cfg.Drain = 20 * time.Second
			if !finish {
				cfg.Drain = 50 * time.Millisecond
			}
			p, err := ordering.New(s.pool, reg, cfg)
			must(t, err)
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			<-entered
			cancel()
			if finish {
				close(release)
			}
			err = <-done
			var cut *ordering.CutShortError
			if got := errors.As(err, &cut); got == finish {
				t.Errorf("run: %v", err)
			}
			want := map[bool]int{true: 1, false: 0}[finish]
			if n := one[int](s, `select count(*) from effects`); n != want {
				t.Errorf("%d effects, want %d", n, want)
			}
			if n := one[int](s, `select count(*) from inboxd.failures`); n != 0 {
				t.Errorf("the stop used up %d attempts", n)
			}
			s.nothingLocked()
		})
	}
}
