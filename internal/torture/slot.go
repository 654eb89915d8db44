//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// spawner runs what starts processes, all on one thread that never ends before
// this process does: the children's parent-death signal comes with its end.
func spawner(work <-chan func()) {
	runtime.LockOSThread()
	for f := range work {
		f()
	}
}

// slot is a place for a process.
type slot struct {
	name    string
	world   *world
	make    func(incarnation int) *exec.Cmd
	crashes bool // its handlers end it on purpose, with crashCode

	busy sync.Mutex // held by the fault that has the slot

	mu          sync.Mutex
	closed      bool // nothing is started any more
	incarnation int
	current     *process // nil: none was started
}

// process is one that runs, or ran, in a slot.
type process struct {
	slot     *slot
	name     string // of its sessions
	cmd      *exec.Cmd
	pid      int
	began    time.Time
	ended    chan struct{} // closed when it has ended; code is set then
	code     int           // -1: a signal ended it
	expected bool          // the torture ends it; guarded by the slot's mu
}

// start starts a process in the slot, unless one runs.
func (s *slot) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.current.running() {
		return nil
	}
	log, err := os.OpenFile(filepath.Join(s.world.dir, s.name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	s.incarnation++
	cmd := s.make(s.incarnation)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = s.world.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	s.world.spawn <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	p := &process{
		slot: s, name: fmt.Sprintf("%s%s/%d", tortured, s.name, s.incarnation),
		cmd: cmd, pid: cmd.Process.Pid, began: time.Now(), ended: make(chan struct{}),
	}
	s.current = p
	go p.wait()
	return nil
}

// wait notes how the process ended, and starts another one if nobody meant it to.
func (p *process) wait() {
	_ = p.cmd.Wait() // the state says more
	s := p.slot
	s.mu.Lock()
	p.code = p.cmd.ProcessState.ExitCode()
	expected := p.expected
	close(p.ended)
	s.mu.Unlock()
	if expected {
		return
	}
	how := p.cmd.ProcessState.String()
	if s.crashes && p.code == crashCode {
		s.world.exits.crashed()
	} else {
		s.world.findings.add("exit", "%s ended by itself: %s (%s.log)", p.name, how, s.name)
	}
	time.Sleep(500 * time.Millisecond)
	if s.busy.TryLock() { // else whoever has the slot starts it
		defer s.busy.Unlock()
		s.mu.Lock()
		mine := s.current == p && !p.expected
		s.mu.Unlock()
		if mine {
			s.mustStart()
		}
	}
}

func (s *slot) mustStart() {
	if err := s.start(); err != nil {
		s.world.findings.add("torture", "%v", err)
	}
}

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// process is the slot's, or nil if none runs.
func (s *slot) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.current.running() {
		return nil
	}
	return s.current
}

// expect says that the torture is about to end the slot's process.
func (s *slot) expect() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.expected = true
	}
	if !s.current.running() {
		return nil
	}
	return s.current
}

func (p *process) signal(sig syscall.Signal) {
	if p.running() {
		_ = syscall.Kill(p.pid, sig) // it may just have ended
	}
}

// kill ends the slot's process with SIGKILL.
func (s *slot) kill() {
	if p := s.expect(); p != nil {
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

// end is kill for a tear-down: nothing is started again.
func (s *slot) end() {
	if s == nil {
		return
	}
	s.close()
	s.kill()
}

// close has nothing started in the slot any more.
func (s *slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

var errNotStopped = errors.New("it did not stop")

// stop asks the slot's process to stop and waits for its end. A process that a
// crash ended meanwhile is no concern.
func (s *slot) stop(limit time.Duration) (took time.Duration, err error) {
	p := s.expect()
	if p == nil {
		return 0, nil
	}
	began := time.Now()
	p.signal(syscall.SIGTERM)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		p.signal(syscall.SIGQUIT) // its stacks go to its log
		time.Sleep(200 * time.Millisecond)
		p.signal(syscall.SIGKILL)
		<-p.ended
		return time.Since(began), fmt.Errorf("%s: %w within %s of SIGTERM; its stacks are in %s.log", p.name, errNotStopped, limit, s.name)
	}
	took = time.Since(began)
	if p.code != 0 && !(s.crashes && p.code == crashCode) {
		err = fmt.Errorf("%s exited with %s %s after SIGTERM (%s.log)", p.name, p.cmd.ProcessState, took.Round(time.Millisecond), s.name)
	}
	return took, err
}

// exitLog is when handlers ended their processes.
type exitLog struct {
	mu      sync.Mutex
	crashes []time.Time
}

func (e *exitLog) crashed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.crashes = append(e.crashes, time.Now())
}
