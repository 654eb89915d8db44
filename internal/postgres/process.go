package postgres

import (
	"context"
	"os/exec"
	"runtime"
	"time"
)

// Mode is a way for a server to end.
type Mode int

const (
	// Clean ends sessions and writes a checkpoint: nothing is to be recovered at the next start.
	Clean Mode = iota
	// Immediate ends all processes at once; the next start recovers from the log.
	Immediate
	// Crash kills all processes with SIGKILL; the next start recovers from the log.
	Crash
)

// process is a started postmaster.
type process struct {
	pid  int
	done chan struct{} // closed when the process has ended and was waited for
	err  error         // how it ended; read after done
}

// startProcess starts cmd on a thread that lives as long as the process does, since the
// parent-death signal is sent when the thread ends that started the process.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// running says whether the process has not ended.
func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// wait returns when the process has ended, or with the context's error.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// poll calls check until it says yes, every few milliseconds.
func poll(ctx context.Context, check func() bool) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}
