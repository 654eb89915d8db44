//go:build !unix

package postgres

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

var errUnsupported = errors.New("the embedded PostgreSQL does not run on " + runtime.GOOS +
	": use a server of your own and give its URL")

// supported says whether servers can be run on this system.
func supported() error { return errUnsupported }

const memory = ""

func memoryFree() uint64 { return 0 }

func lockFile(string) (*os.File, error)              { return nil, errUnsupported }
func owner(fs.FileInfo) (uid, gid int)               { return os.Getuid(), os.Getgid() }
func processAttributes(account) *syscall.SysProcAttr { return nil }
func terminate(int, Mode) ([]int, error)             { return nil, errUnsupported }
func freeze(int) error                               { return errUnsupported }
func thaw(int) error                                 { return errUnsupported }
func commandLine(int) string                         { return "" }
func children(int) []int                             { return nil }
func alive(int) bool                                 { return false }
