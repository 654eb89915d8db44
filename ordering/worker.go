package ordering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// worker takes lanes from the scheduler, runs them and gives them back. A
// handler that never returns, or that ends the goroutine, would take the worker
// with it; then the worker is given up and another one takes its place.
type worker struct {
	p *Processor

	mu    sync.Mutex
	conn  *pgxpool.Conn // while a round runs
	lanes []*lane
	call  call // the handler that runs now
	gone  bool // given up: nothing of it counts any more
}

// call is a handler at work on the events of a lane.
type call struct {
	lane  *lane
	event *event // the first
	began time.Time
}

// errGone unwinds a worker that was given up while its handler ran.
var errGone = errors.New("the worker was given up")

// errGoexit is how an event failed whose handler called runtime.Goexit.
var errGoexit = errors.New("the handler ended its goroutine (runtime.Goexit) instead of returning")

// startWorker starts a worker that the processor waits for.
func (p *Processor) startWorker(ctx context.Context) {
	w := &worker{p: p}
	p.workersMu.Lock()
	p.workers[w] = struct{}{}
	p.workersMu.Unlock()
	p.working.Add(1)
	go w.run(ctx)
}

func (w *worker) run(ctx context.Context) {
	returned := false
	defer func() {
		if !returned && w.giveUp(errGoexit) {
			w.p.startWorker(ctx)
		}
		w.retire()
	}()
	w.work(ctx)
	returned = true
}

// retire takes the worker off the processor's list, once.
func (w *worker) retire() {
	w.p.workersMu.Lock()
	_, listed := w.p.workers[w]
	delete(w.p.workers, w)
	w.p.workersMu.Unlock()
	if listed {
		w.p.working.Done()
	}
}

// work runs until ctx ends. What runs then runs on, until p.hard ends.
func (w *worker) work(ctx context.Context) {
	for {
		lanes := w.p.sched.take(ctx)
		if lanes == nil {
			return
		}
		w.begin(lanes)
		err := w.p.round(w, lanes)
		if !w.end() {
			return
		}
		w.p.sched.put(lanes)
		if err != nil {
			w.p.outage.wait(ctx, err)
		}
	}
}

func (w *worker) begin(lanes []*lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes = lanes
}

// end ends a round; false: the worker was given up meanwhile.
func (w *worker) end() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes = nil
	return !w.gone
}

func (w *worker) holds(conn *pgxpool.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn = conn
}

// release gives the connection back, unless it was taken away.
func (w *worker) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		w.conn.Release()
		w.conn = nil
	}
}

func (w *worker) enter(l *lane, e *event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.call = call{l, e, time.Now()}
}

// leave ends a call; false: the worker was given up while it ran.
func (w *worker) leave() (took time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	took = time.Since(w.call.began)
	w.call = call{}
	return took, !w.gone
}

// giveUp takes lanes and connection away from the worker; its event failed with
// err. False: it was given up before, or holds nothing.
func (w *worker) giveUp(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return false
	}
	w.gone = true
	if w.conn != nil {
		conn := w.conn.Hijack()
		w.conn = nil
		// Closed from outside: the handler may be using it.
		_ = conn.PgConn().Conn().Close()
	}
	fresh := make([]*lane, len(w.lanes))
	for i, old := range w.lanes {
		fresh[i] = &lane{id: old.id, ran: true, more: true, alone: 1}
		if old == w.call.lane {
			fresh[i].cursor, fresh[i].attempts = old.cursor, old.attempts
			fresh[i].fail(w.call.event.Position, err)
			fresh[i].failed.eventType = w.call.event.Type
		}
	}
	w.p.sched.replace(fresh)
	return true
}

// overdue gives the worker up if its handler has not returned long after its
// context ended.
func (w *worker) overdue(limit time.Duration) bool {
	w.mu.Lock()
	c := w.call
	w.mu.Unlock()
	if c.lane == nil || time.Since(c.began) < limit {
		return false
	}
	return w.giveUp(fmt.Errorf("the handler did not return within %s of its time-out; it was given up and its goroutine leaks", abortGrace))
}

// runs names the event whose handler runs; "" if none does.
func (w *worker) runs() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.call.event == nil {
		return ""
	}
	return w.call.event.name()
}

// watch replaces workers whose handler does not return.
func (p *Processor) watch(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, w := range p.listWorkers() {
			name := w.runs()
			if w.overdue(p.longest + abortGrace) {
				p.log.Error("a handler ignores its context; its connection was closed and another worker took its place", "event", name)
				p.startWorker(p.taking)
				w.retire()
			}
		}
	}
}

func (p *Processor) listWorkers() []*worker {
	p.workersMu.Lock()
	defer p.workersMu.Unlock()
	list := make([]*worker, 0, len(p.workers))
	for w := range p.workers {
		list = append(list, w)
	}
	return list
}
