package inboxtest

import (
	"sync"

	"github.com/inboxd/inboxd/admin"
)

// CheckIdempotent checks that handlers take effect once, whatever happens to the
// process and however often an event is delivered. Each of these ends as if it
// had not happened:
//
//   - every event is delivered three times;
//   - the process dies at each event after its handler succeeded and before its
//     transaction is committed, and another one goes on;
//   - the process dies at each event after its transaction was committed and
//     before anybody has heard of it, and another one goes on;
//   - with Case.Replay, an operator has all lanes run again.
//
// It finds handlers that write past their transaction, and those that keep in
// memory what they need to know.
func CheckIdempotent(t T, c Case) {
	t.Helper()
	c = c.withDefaults(t)
	c.checkIdempotent(t, c.clean(t))
}

func (c Case) checkIdempotent(t T, clean *run) {
	t.Helper()
	c.checkDuplicates(t, clean)
	c.checkCrash(t, clean, "the process dies before each commit", false)
	c.checkCrash(t, clean, "the process dies after each commit", true)
	if c.Replay {
		c.checkReplay(t, clean)
	}
}

func (c Case) checkDuplicates(t T, clean *run) {
	t.Helper()
	r := c.fresh(t, "every event is delivered three times", noFaults{})
	r.c.Events = nil
	for _, e := range c.Events {
		r.c.Events = append(r.c.Events, e, e)
	}
	r.c.Events = append(r.c.Events, c.Events...)
	r.oneByOne(r.process(c.calm()))
	r.compare(clean)
}

func (c Case) checkCrash(t T, clean *run, name string, after bool) {
	t.Helper()
	plan := &crashes{after: after, done: map[string]bool{}, victim: make(chan *process, 1)}
	r := c.fresh(t, name, plan)
	p := r.process(c.calm())
	for _, e := range c.Events {
		r.store(e)
		for plan.strike(r, p) {
			p = r.process(c.calm())
		}
	}
	r.quiet(p)
	r.compare(clean)
}

// crashes ends the process once at each event that is about to be committed.
type crashes struct {
	noFaults
	after  bool          // the commit has taken place, but nobody has heard of it
	victim chan *process // holds the process that runs

	mu     sync.Mutex
	done   map[string]bool // events at which a process was ended
	last   *attempt        // that succeeded, its commit yet to come
	struck bool            // the process that runs is ended, or about to be
}

// strike runs a process until all is quiet or the process was ended. All may be
// quiet, in the database, a moment before the process is ended.
func (p *crashes) strike(r *run, process *process) (died bool) {
	r.t.Helper()
	p.victim <- process
	err := r.untilQuiet(true, process)
	<-p.victim
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", r.name, err, r.History())
	}
	p.mu.Lock()
	died, p.struck = p.struck, false
	p.mu.Unlock()
	if died {
		process.Abort()
		_ = process.stop() // cut short, as was meant
	}
	return died
}

func (p *crashes) end(a *attempt, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last = a; err != nil {
		p.last = nil
	}
	return err
}

func (p *crashes) commit(w *wire) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.last
	p.last = nil
	if last == nil || p.done[last.events[0].ID] {
		return
	}
	p.done[last.events[0].ID], p.struck = true, true
	victim := <-p.victim
	p.victim <- victim
	if p.after {
		w.arm(victim.Abort)
		return
	}
	w.sever()
	victim.Abort()
}

func (c Case) checkReplay(t T, clean *run) {
	t.Helper()
	r := c.fresh(t, "all lanes run again", noFaults{})
	r.oneByOne(r.process(c.calm()))
	for _, aggregate := range c.aggregates() {
		if err := r.replay(aggregate); err != nil {
			t.Fatalf("%s: %v\n%s", r.name, err, r.History())
		}
		r.quiet(r.process(c.calm()))
	}
	r.compare(clean)
}

// replay has a lane run again from its first event, if any has run.
func (r *run) replay(aggregate string) error {
	if len(r.Processed(aggregate)) == 0 {
		return nil
	}
	ctx, cancel := r.context()
	defer cancel()
	plan, err := r.Admin().ReplayPlan(ctx, aggregate, "1")
	if err != nil {
		return err
	}
	_, err = r.Admin().Replay(ctx, admin.By{Actor: "inboxtest", Reason: r.name}, plan)
	return err
}
