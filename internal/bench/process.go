package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// process is a child, as its parent sees it.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	errors  *bytes.Buffer
	reading sync.WaitGroup

	mu      sync.Mutex
	last    report // the newest count
	ready   bool
	armed   bool
	stopped *report
	ended   bool
}

// errNoChild is returned when W8 or W9 are to run and nobody said how.
var errNoChild = errors.New("this program cannot start itself again")

// startProcess starts a child for the stage's lanes. Whoever got it closes it.
func (s *stage) startProcess() (*process, error) {
	if s.b.Child == nil {
		return nil, errNoChild
	}
	p := &process{cmd: s.b.Child(), errors: &bytes.Buffer{}}
	p.cmd.Stderr = p.errors
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	p.reading.Go(func() { p.read(out) })
	o := order{URL: s.b.URL, Schema: s.schema, Accounts: s.own.table, Workers: workers, Batch: batch}
	if err := json.NewEncoder(in).Encode(o); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *process) read(out io.Reader) {
	decoder := json.NewDecoder(out)
	for {
		var r report
		err := decoder.Decode(&r)
		p.mu.Lock()
		switch {
		case err != nil:
			p.ended = true
		case r.Stopped:
			p.stopped = &r
		case r.Armed:
			p.armed, p.last = true, report{}
		case r.Ready:
			p.ready = true
		case r.At > 0:
			p.last = r
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// tell gives a command and waits for its answer.
func (p *process) tell(ctx context.Context, command string, answered func() bool) error {
	p.mu.Lock()
	p.ready, p.armed, p.stopped = false, false, nil
	p.mu.Unlock()
	if _, err := io.WriteString(p.in, command+"\n"); err != nil {
		return p.failure(err)
	}
	return await(ctx, poll, func() (int64, bool, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ended && !answered() {
			return 0, false, p.failure(io.ErrUnexpectedEOF)
		}
		return 0, answered(), nil
	})
}

func (p *process) run(ctx context.Context) error {
	return p.tell(ctx, "run", func() bool { return p.ready })
}

func (p *process) arm(ctx context.Context) error {
	return p.tell(ctx, "arm", func() bool { return p.armed })
}

// stop ends a run and answers the report of all of it.
func (p *process) stop(ctx context.Context) (report, error) {
	if err := p.tell(ctx, "stop", func() bool { return p.stopped != nil }); err != nil {
		return report{}, err
	}
	return *p.stopped, nil
}

func (p *process) failure(err error) error {
	return fmt.Errorf("a process that was started ended early: %w: %s", err, bytes.TrimSpace(p.errors.Bytes()))
}

// now is the newest count; an error if the process has ended.
func (p *process) now() (report, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return report{}, p.failure(io.ErrUnexpectedEOF)
	}
	return p.last, nil
}

// close ends the child and waits for it.
func (p *process) close() error {
	_ = p.in.Close() // it ends with its input
	kill := time.AfterFunc(30*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	p.reading.Wait()
	if err := p.cmd.Wait(); err != nil {
		return p.failure(err)
	}
	return nil
}

// fleet is some processes on the same lanes.
type fleet []*process

func (s *stage) startFleet(size int) (fleet, error) {
	var f fleet
	for range size {
		p, err := s.startProcess()
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f = append(f, p)
	}
	return f, nil
}

// all has each process do something.
func (f fleet) all(do func(p *process) error) error {
	for _, p := range f {
		if err := do(p); err != nil {
			return err
		}
	}
	return nil
}

// processed waits until they have processed n events since they were armed, and
// answers when the first began and the last of them came to its count.
func (f fleet) processed(ctx context.Context, n int64) (began, ended time.Time, err error) {
	err = await(ctx, poll, func() (sum int64, done bool, err error) {
		first, last := int64(0), int64(0)
		for _, p := range f {
			now, err := p.now()
			if err != nil {
				return 0, false, err
			}
			sum += now.Processed
			if now.Began != 0 && (first == 0 || now.Began < first) {
				first = now.Began
			}
			last = max(last, now.At)
		}
		began, ended = time.Unix(0, first), time.Unix(0, last)
		return sum, sum >= n && first != 0, nil
	})
	return began, ended, err
}

func (f fleet) close() error {
	var all error
	for _, p := range f {
		all = errors.Join(all, p.close())
	}
	return all
}
