package ordering_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

// lateConn delivers what is written from the armed heartbeat on after a while, its
// end included, as a slow network does.
type lateConn struct {
	net.Conn
	armed *atomic.Bool
	sent  chan<- struct{}
	by    time.Duration
	lates *sync.WaitGroup

	mu     sync.Mutex
	late   bool
	closed bool
	queue  chan func()
}

func (c *lateConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.late && bytes.Contains(b, []byte("heartbeat(")) && c.armed.CompareAndSwap(true, false) {
		c.late, c.queue = true, make(chan func(), 64)
		c.lates.Go(func() {
			for deliver := range c.queue {
				time.Sleep(c.by)
				deliver()
			}
		})
		close(c.sent)
	}
	if c.closed {
		return 0, net.ErrClosed
	}
	if !c.late {
		return c.Conn.Write(b)
	}
	kept := bytes.Clone(b)
	c.queue <- func() { _, _ = c.Conn.Write(kept) }
	return len(b), nil
}

func (c *lateConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.late {
		return c.Conn.Close()
	}
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.queue <- func() { _ = c.Conn.Close() }
	close(c.queue)
	return nil
}

// A process stops while its heartbeat is on its way to the server. The heartbeat
// must not arrive after the farewell: it would enter the process again, and the
// others would leave it a share of the lanes until they notice.
func TestAHeartbeatUnderWayDoesNotOutliveItsProcess(t *testing.T) {
	t.Parallel()
	const by = 300 * time.Millisecond
	s := setup(t)
	config := s.pool.Config()
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // every statement with its text
	name := "leaving " + t.Name()[:30]
	config.ConnConfig.RuntimeParams["application_name"] = name
	var armed atomic.Bool
	var lates sync.WaitGroup
	t.Cleanup(lates.Wait)
	sent := make(chan struct{})
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &lateConn{Conn: conn, armed: &armed, sent: sent, by: by, lates: &lates}, nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	p, err := ordering.New(pool, handlers.New(), ordering.Config{})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	s.eventually(`select exists (select from inboxd.processes)`)
	armed.Store(true)
	select {
	case <-sent:
	case <-time.After(10 * time.Second):
		t.Fatal("no heartbeat was sent")
	}
	stop()
	must(t, <-ended)
	pool.Close()
	lates.Wait() // everything has been delivered, the connections' ends behind it
	s.until(`select not exists (select from pg_stat_activity where application_name = $1)`, name)
	if n := one[int](s, `select count(*) from inboxd.processes`); n != 0 {
		t.Errorf("%d processes are registered after the stop", n)
	}
}
