//go:build unix && !linux

package postgres

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// endWithParent does nothing: only Linux tells a process that its parent died.
func endWithParent(*syscall.SysProcAttr) {}

// memory would be a directory that keeps files in memory; there is none that is always there.
const memory = ""

func memoryFree() uint64 { return 0 }

// commandLine returns what a process was started with; empty when there is none or it has ended.
func commandLine(pid int) string {
	out, err := exec.Command("ps", "-ww", "-o", "stat=,command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	state, command, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if strings.HasPrefix(state, "Z") {
		return ""
	}
	return strings.TrimSpace(command)
}

// alive says whether a process has not ended.
func alive(pid int) bool { return commandLine(pid) != "" }

// children returns the processes whose parent is pid.
func children(pid int) []int {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(out)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}
