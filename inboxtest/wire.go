package inboxtest

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/jackc/pgx/v5"
)

// wire is a connection that can be cut at the very moment of a commit. It reads
// the server's messages, a type and a length each, only between arm and disarm;
// both are called while the connection has nothing under way, so that reading
// begins and ends between two messages.
type wire struct {
	net.Conn

	mu    sync.Mutex
	onCut func() // nil: not armed
	cut   bool
	ready []byte // whole messages, to be read
	rest  []byte // the beginning of one
}

// wireOf is the wire of a connection of the kit's pool.
func wireOf(conn *pgx.Conn) *wire {
	w, ok := conn.PgConn().Conn().(*wire)
	if !ok {
		return &wire{} // something was wrapped around it: it cannot be cut
	}
	return w
}

// sever closes the connection: nothing more is sent, and the server rolls back.
func (w *wire) sever() {
	if w.Conn != nil {
		_ = w.Conn.Close() // what is lost is meant to be
	}
}

// arm has the connection cut when the server has committed the transaction that
// is under way, before anybody here hears of it. f is called then.
func (w *wire) arm(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onCut = f
}

// disarm ends arm.
func (w *wire) disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.cut && len(w.ready) == 0 && len(w.rest) == 0 {
		w.onCut = nil
	}
}

// Read reads what the server sends, up to the cut.
func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	onCut := w.onCut
	w.mu.Unlock()
	if onCut == nil {
		return w.Conn.Read(p)
	}
	for len(w.ready) == 0 {
		if w.cut {
			return 0, io.ErrUnexpectedEOF
		}
		if err := w.fill(onCut); err != nil {
			return 0, err
		}
	}
	n := copy(p, w.ready)
	w.ready = w.ready[n:]
	return n, nil
}

// fill reads on, and makes ready the messages that came before the answer to a
// commit.
func (w *wire) fill(onCut func()) error {
	chunk := make([]byte, 8<<10)
	n, err := w.Conn.Read(chunk)
	w.rest = append(w.rest, chunk[:n]...)
	for len(w.rest) >= messageHeader {
		size := 1 + int(binary.BigEndian.Uint32(w.rest[1:]))
		if len(w.rest) < size {
			break
		}
		if isCommitted(w.rest[:size]) {
			w.mu.Lock()
			w.cut = true
			w.mu.Unlock()
			_ = w.Conn.Close() // what is lost is meant to be
			onCut()
			return nil
		}
		w.ready, w.rest = append(w.ready, w.rest[:size]...), w.rest[size:]
	}
	return err
}

// messageHeader is the type and the length of a message.
const messageHeader = 5

// isCommitted reports whether a message of the server, CommandComplete, says that
// a transaction was committed.
func isCommitted(message []byte) bool {
	return message[0] == 'C' && string(message[messageHeader:]) == "COMMIT\x00"
}
