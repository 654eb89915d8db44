//go:build !linux

package database

import "syscall"

// control does nothing where there is no TCP_USER_TIMEOUT.
func control(string, string, syscall.RawConn) error {
	_ = userTimeout
	return nil
}
