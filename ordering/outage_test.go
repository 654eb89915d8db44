package ordering_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
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
		"out of connections": func(t *testing.T, s *stage, _ *postgres.Server) {
			for _, conn := range s.allConnections() {
				must(t, conn.Close(context.Background()))
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

// allConnections ends all other sessions, takes every connection that the server
// has, and keeps them for a while.
func (s *stage) allConnections() (taken []*pgx.Conn) {
	s.t.Helper()
	const endOthers = `select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and application_name <> 'hoarder'`
	config, err := pgx.ParseConfig(s.url)
	must(s.t, err)
	config.RuntimeParams["application_name"] = "hoarder"
	refused, deadline := 0, time.After(30*time.Second)
	for refused < 20 {
		conn, err := pgx.ConnectConfig(context.Background(), config)
		if err != nil {
			refused++
			_, _ = taken[0].Exec(context.Background(), endOthers)
			continue
		}
		taken = append(taken, conn)
		select {
		case <-deadline:
			s.t.Fatalf("%d connections, and still more", len(taken))
		default:
		}
	}
	pause := time.NewTimer(500 * time.Millisecond)
	<-pause.C
	return taken
}

// The server's name leads to another address from some moment on, or to one that
// does not answer for a while.
func TestNetworkOutages(t *testing.T) {
	for _, fault := range []string{"another address", "no answer"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.put("Paid", 20, 60)
			names := newNames(t, s.url)
			config, err := pgxpool.ParseConfig(s.url)
			must(t, err)
			config.MaxConns = 12
			config.ConnConfig.Host = "db.test"
			config.ConnConfig.Fallbacks = nil
			config.ConnConfig.LookupFunc, config.ConnConfig.DialFunc = names.lookup, names.dial
			pool := pgtest.PoolConfig(t, config)
			var ran atomic.Int64
			started := make(chan struct{})
			reg := handlers.New()
			handlers.On(reg, "Paid", func(ctx context.Context, tx pgx.Tx, e handlers.Event[[]byte]) error {
				if ran.Add(1) == 100 {
					close(started)
				}
				return effect(ctx, tx, e.Message)
			})
			cfg := quick()
			cfg.UntilIdle = false
			cfg.Batch = 4
			away := &stage{t: t, url: s.url, pool: pool, store: s.store}
			away.start(reg, cfg)
			<-started
			names.change(fault == "no answer")
			s.until(`select count(*) = 1200 from effects`)
			s.inOrder(1200)
			if n := one[int](s, `select count(*) from inboxd.failures`); n != 0 {
				t.Errorf("the outage used up %d attempts", n)
			}
			if n := names.after.Load(); n == 0 {
				t.Error("no connection was made after the change")
			}
		})
	}
}

// names resolves the server's name: to a relay at first, to the server itself
// once the relay is gone.
type names struct {
	server, port string
	relay        net.Listener

	mu     sync.Mutex
	moved  bool
	silent time.Time // until then nobody answers
	open   []net.Conn
	after  atomic.Int64 // connections since the change
}

func newNames(t *testing.T, url string) *names {
	config, err := pgx.ParseConfig(url)
	must(t, err)
	n := &names{server: config.Host, port: fmt.Sprint(config.Port)}
	n.relay, err = net.Listen("tcp", "127.0.0.2:0")
	must(t, err)
	t.Cleanup(func() { n.cut() })
	go n.serve()
	return n
}

func (n *names) lookup(context.Context, string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.moved {
		return []string{n.server}, nil
	}
	return []string{"127.0.0.2"}, nil
}

func (n *names) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	moved, silent := n.moved, time.Until(n.silent)
	n.mu.Unlock()
	if silent > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Second) // as a dialer with a time-out
		defer cancel()
		<-limited.Done()
		return nil, limited.Err()
	}
	if moved {
		n.after.Add(1)
	} else {
		address = n.relay.Addr().String()
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// serve relays connections to the server.
func (n *names) serve() {
	for {
		from, err := n.relay.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", net.JoinHostPort(n.server, n.port))
		if err != nil {
			_ = from.Close()
			continue
		}
		n.mu.Lock()
		n.open = append(n.open, from, to)
		n.mu.Unlock()
		for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
			go func() {
				_, _ = io.Copy(pair[0], pair[1])
				_, _ = pair[0].Close(), pair[1].Close()
			}()
		}
	}
}

// change cuts the relay and has the name lead to the server, after a silence if
// that is asked for.
func (n *names) change(silence bool) {
	n.mu.Lock()
	n.moved = true
	if silence {
		n.silent = time.Now().Add(1500 * time.Millisecond)
	}
	n.mu.Unlock()
	n.cut()
}

func (n *names) cut() {
	_ = n.relay.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.open {
		_ = conn.Close()
	}
	n.open = nil
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
