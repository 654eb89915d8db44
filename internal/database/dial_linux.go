package database

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// control bounds how long data that was sent may go without an answer of the
// peer's system: keep-alive probes do not run while there is such data.
func control(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var setErr error
	err := raw.Control(func(fd uintptr) {
		setErr = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(userTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return setErr
}
