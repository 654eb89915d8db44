package postgres

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent makes the server shut down when its owner dies.
func endWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGINT }

// memory is the directory that keeps files in memory, if it is one.
const memory = "/dev/shm"

// memoryFree returns how many bytes it has room for.
func memoryFree() uint64 {
	const tmpfs = 0x01021994
	var st syscall.Statfs_t
	if err := syscall.Statfs(memory, &st); err != nil || int64(st.Type) != tmpfs {
		return 0
	}
	return st.Bavail * uint64(st.Bsize)
}

// commandLine returns what a process was started with; empty when there is none or it has ended.
func commandLine(pid int) string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(strings.TrimRight(string(b), "\x00"), "\x00", " ")
}

// alive says whether a process has not ended. One that has and was not waited for counts as ended;
// one that is about to end still holds its memory, and counts as alive.
func alive(pid int) bool {
	state, _ := stat(pid)
	return state != "" && state != "Z" && state != "X"
}

// children returns the processes whose parent is pid.
func children(pid int) []int {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, path := range paths {
		child, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if _, parent := stat(child); parent == strconv.Itoa(pid) {
			pids = append(pids, child)
		}
	}
	return pids
}

// stat returns a process's state and parent; empty when there is none.
func stat(pid int) (state, parent string) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", ""
	}
	// pid (name) state parent …; the name may hold anything
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 2 {
		return "", ""
	}
	return fields[0], fields[1]
}
