//go:build unix

package postgres

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// supported says whether servers can be run on this system.
func supported() error { return nil }

// lockFile takes the lock that makes this process the owner; it goes with the process.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, err
	}
	return f, nil
}

// owner returns the user and group a file belongs to.
func owner(info fs.FileInfo) (uid, gid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return os.Getuid(), os.Getgid()
}

// processAttributes put a command into its own process group and under the account.
func processAttributes(a account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	endWithParent(attr)
	if a.switched {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}

// terminate tells the postmaster to end in the given mode, and returns the children it had.
func terminate(pid int, mode Mode) ([]int, error) {
	if mode == Crash {
		if err := freeze(pid); err != nil { // so that it starts no more of them
			return nil, err
		}
		left := children(pid)
		for _, child := range left {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		return left, syscall.Kill(pid, syscall.SIGKILL)
	}
	left := children(pid)
	if err := thaw(pid); err != nil {
		return nil, err
	}
	if mode == Immediate {
		return left, syscall.Kill(pid, syscall.SIGQUIT)
	}
	return left, syscall.Kill(pid, syscall.SIGINT)
}

// freeze stops the postmaster and then its children.
func freeze(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGSTOP)
	}
	return nil
}

// thaw undoes freeze.
func thaw(pid int) error {
	for _, child := range children(pid) {
		_ = syscall.Kill(child, syscall.SIGCONT)
	}
	return syscall.Kill(pid, syscall.SIGCONT)
}
