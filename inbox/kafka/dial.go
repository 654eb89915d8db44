package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var errCut = errors.New("connections were cut because the source stops")

// dialer makes every connection of a source, and can cut them all. The client
// library waits for answers without a context; a stop that a hanging broker
// must not hold up needs another handle on them, and this is it.
type dialer struct {
	ctx    context.Context // done after cut
	cancel context.CancelCauseFunc
	tls    *TLS // nil: none

	mu    sync.Mutex
	conns map[*trackedConn]struct{}
}

func newDialer() *dialer {
	d := &dialer{conns: map[*trackedConn]struct{}{}}
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	return d
}

// Dial implements the client library's interface of a dialer.
func (d *dialer) Dial(network, addr string) (net.Conn, error) {
	nd := net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	c, err := nd.DialContext(d.ctx, network, addr)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: c, dialer: d}
	if !d.track(tracked) {
		_ = c.Close()
		return nil, errCut
	}
	if d.tls == nil {
		return tracked, nil
	}
	encrypted, err := d.encrypt(tracked, addr)
	if err != nil {
		_ = tracked.Close()
		return nil, fmt.Errorf("encrypt the connection to %s: %w", addr, err)
	}
	return encrypted, nil
}

// track makes cut know of a connection, unless there was a cut.
func (d *dialer) track(c *trackedConn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return false
	}
	d.conns[c] = struct{}{}
	return true
}

// encrypt does the handshake of TLS. It is done here and not by the client
// library, because that reads certificates once, and hides why a handshake failed.
func (d *dialer) encrypt(c net.Conn, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	config, err := d.tls.config(host)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(d.ctx, dialTimeout)
	defer cancel()
	encrypted := tls.Client(c, config)
	return encrypted, encrypted.HandshakeContext(ctx)
}

// cut closes every connection and refuses to make others.
func (d *dialer) cut() {
	d.cancel(errCut)
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		_ = c.Conn.Close()
	}
	clear(d.conns)
}

// trackedConn is a connection of a dialer. It also gives up a broker that hangs
// sooner than the client would: as long as nothing has come over it, it waits
// for firstAnswer only. A broker that hangs still accepts connections, and the
// client would wait for the whole of its time-out on each new one.
type trackedConn struct {
	net.Conn
	dialer   *dialer
	answered atomic.Bool
}

func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, err
}

func (c *trackedConn) SetReadDeadline(t time.Time) error {
	if first := time.Now().Add(firstAnswer); !c.answered.Load() && t.After(first) {
		t = first
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *trackedConn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.conns, c)
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}
