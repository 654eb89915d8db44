package inboxtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/inboxd/inboxd/handlers"
)

// CheckRollback checks that an attempt that fails leaves nothing, and that the
// next one makes up for it. Each event is run until its handler has failed once at
// each of its statements, in turn, and once at its end. Each of these attempts
// must leave the business tables as they were and must be one that is tried again,
// and all must end like a run in which all goes well.
//
// It finds handlers that swallow the error of a statement or make it permanent,
// those that write past their transaction, and those that keep in memory what a
// failed attempt has done.
func CheckRollback(t T, c Case) {
	t.Helper()
	c = c.withDefaults(t)
	c.checkEachFault(t, c.clean(t))
}

// checkEachFault runs one event at a time, so that what changes during an attempt
// was changed by it.
func (c Case) checkEachFault(t T, clean *run) {
	t.Helper()
	plan := &eachFault{faults: newFaults(c), events: map[string]*faultsOf{}}
	r := c.fresh(t, "each statement fails once", plan)
	plan.run = r
	config := c.calm()
	config.Retry.Attempts = unlimited
	r.oneByOne(r.process(config))
	if !plan.report(t, r) {
		r.compare(clean)
	}
}

// unlimited attempts: no number of faults makes a lane stuck.
const unlimited = 1 << 20

// faults is what plans have in common that make statements fail.
type faults struct {
	noFaults
	c Case

	mu       sync.Mutex
	problems []string
	reported map[string]bool
}

func newFaults(c Case) *faults {
	return &faults{c: c, reported: map[string]bool{}}
}

// judge looks how an attempt ended in which a statement was made to fail, and
// answers what it ends with.
func (f *faults) judge(a *attempt, err error) error {
	switch {
	case a.failed == "", a.queued:
		return err
	case err == nil:
		f.problem(a, "the handler of %s returned nil although a statement of it had failed; it has to return the error: %s",
			a, short(a.failed))
	case errors.Is(err, handlers.ErrPermanent):
		f.problem(a, "the handler of %s made the error of a statement permanent, which another attempt could have mended; statement: %s",
			a, short(a.failed))
		return errors.New(err.Error()) // so that the run goes on
	case errors.Is(err, handlers.ErrSkip):
		f.problem(a, "the handler of %s skipped the event because a statement had failed, so the event is lost; statement: %s",
			a, short(a.failed))
		return errors.New(err.Error())
	default:
		return &faultError{fmt.Sprintf("%s at statement %d: %s", errFault, a.failedAt, short(a.failed)), err}
	}
	return err
}

// problem takes note of one, once an event.
func (f *faults) problem(a *attempt, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.reported[a.id()] {
		f.reported[a.id()] = true
		f.problems = append(f.problems, fmt.Sprintf(format, args...))
	}
}

// report fails the test with the problems that were found, if any.
func (f *faults) report(t T, r *run) bool {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.problems) == 0 {
		return false
	}
	t.Errorf("%s:\n%s\n%s", r.name, strings.Join(f.problems, "\n"), r.History())
	return true
}

// faultError is how an attempt ended in which a statement was made to fail. What
// the handler made of it is kept: it may have said when to try again.
type faultError struct {
	message string
	err     error
}

func (e *faultError) Error() string { return e.message }
func (e *faultError) Unwrap() error { return e.err }

// allowed reports whether a fault may be put at the statement that is about to be
// sent.
func (f *faults) allowed(sql string) bool { return f.c.NoFault == nil || !f.c.NoFault(sql) }

// id is that of the attempt's event; of several, of the first.
func (a *attempt) id() string { return a.events[0].ID }

// String names the attempt's event for people.
func (a *attempt) String() string {
	e := a.events[0]
	return fmt.Sprintf("%s (%s of %s)", e.ID, e.Type, e.AggregateID)
}

// eachFault fails the statements of an event one after the other, an attempt for
// each, and then its end.
type eachFault struct {
	*faults
	run    *run
	events map[string]*faultsOf

	before state    // of the business tables, when the latest attempt began
	failed *attempt // the latest attempt, if it failed
}

// faultsOf is how far one event is.
type faultsOf struct {
	at    int  // the statement that fails next
	ended bool // the end has failed
	own   int  // attempts that were left alone
}

// begin compares what the attempt finds with what the one before it found, if that
// has failed.
func (p *eachFault) begin(ctx context.Context, a *attempt) {
	now, err := p.run.shown(ctx, p.c.Outside)
	if err != nil {
		p.problem(a, "%v", err)
		return
	}
	if p.failed != nil {
		if d := diff(p.before, now); d != "" {
			p.problem(p.failed, "a failed attempt of %s has left something: it wrote past its transaction, "+
				"or ended it (-: before, +: after; tables that stand for the outside world are named in Case.Outside):\n%s", p.failed, d)
		}
	}
	p.before, p.failed = now, nil
	if p.events[a.id()] == nil {
		p.events[a.id()] = &faultsOf{at: 1}
	}
}

func (p *eachFault) fails(a *attempt, sql string) bool {
	return a.statements >= p.events[a.id()].at && p.allowed(sql)
}

func (p *eachFault) end(a *attempt, err error) error {
	err = p.verdict(a, p.events[a.id()], err)
	if err != nil || a.failed != "" {
		p.failed = a
	}
	return err
}

func (p *eachFault) verdict(a *attempt, e *faultsOf, err error) error {
	if a.failed != "" {
		e.at = a.failedAt + 1
		return p.judge(a, err)
	}
	if err == nil && !e.ended {
		e.ended = true
		return fmt.Errorf("%w after the handler", errFault)
	}
	if e.own++; e.own >= attempts && !errors.Is(err, handlers.ErrPause) {
		// It fails though it was left alone, at its commit if not before. Tried no
		// more often than in a run in which all goes well, it is stuck.
		return handlers.Permanent(cmp.Or(err, errCommit))
	}
	return err
}

var errCommit = errors.New("the handler succeeded, but what it did could not be committed")

// randomFaults fails one statement in five, at most so often an event.
type randomFaults struct {
	*faults
	seed  uint64
	count map[string]int // faults of an event
	tries map[string]int // attempts of an event
}

// maxRandom is how often an event fails at random.
const maxRandom = 4

func (p *randomFaults) begin(_ context.Context, a *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries[a.id()]++
}

func (p *randomFaults) fails(a *attempt, sql string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count[a.id()] >= maxRandom || !p.drawn(a) || !p.allowed(sql) {
		return false
	}
	p.count[a.id()]++
	return true
}

// drawn depends on the seed and the statement alone, not on who runs when.
func (p *randomFaults) drawn(a *attempt) bool {
	h := fnv.New64a()
	fmt.Fprint(h, a.id(), p.tries[a.id()], a.statements)
	return rand.New(rand.NewPCG(p.seed, h.Sum64())).IntN(5) == 0
}

func (p *randomFaults) end(a *attempt, err error) error { return p.judge(a, err) }
