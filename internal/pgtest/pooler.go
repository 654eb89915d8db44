package pgtest

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Pooler answers a URL that leads to the database at address by way of what a
// client takes for a connection pooler in transaction mode: sessions have
// numbers of its own, and no notification comes through. Unlike a pooler it
// gives each client one session, for good.
func Pooler(t testing.TB, address string) string {
	t.Helper()
	return Between(t, address, func(kind byte, body []byte) bool {
		if kind == 'K' { // BackendKeyData
			binary.BigEndian.PutUint32(body, 1<<31) // more than any server's
		}
		return kind != 'A' // NotificationResponse
	})
}

// Between is a proxy before the server at address, until the test ends. change
// sees each message of the server, may write to it, and says whether it is
// passed on.
func Between(t testing.TB, address string, change func(kind byte, body []byte) bool) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = l.Close() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			all.Go(func() { _, _ = io.Copy(upstream, client); _ = upstream.Close() })
			all.Go(func() { passOn(client, upstream, change); _ = client.Close() })
		}
	})
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String()
}

func passOn(client io.Writer, server io.Reader, change func(kind byte, body []byte) bool) {
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(server, head); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(server, body); err != nil {
			return
		}
		if !change(head[0], body) {
			continue
		}
		if _, err := client.Write(append(head, body...)); err != nil {
			return
		}
	}
}
