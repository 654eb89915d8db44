package ordering

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
)

// Processor runs lanes. Make one with New, run it once with Run.
type Processor struct {
	pool    *pgxpool.Pool
	cfg     Config
	log     *slog.Logger
	entries map[string]*handlers.Entry
	sql     statements

	id       atomic.Int32 // this process's number, once it is registered
	ran      atomic.Bool  // Run was called
	sched    *scheduler
	sweeper  *sweeper
	outage   *outage
	pace     *pace
	breaker  *breaker
	types    []string // that have a handler here
	quiet    *quiet
	deaf     bool // of the listener: it was said that notifications do not arrive
	hooks    hooks
	policies policies
	longest  time.Duration // the longest that a call of a handler may take
	beatNow  chan struct{} // a heartbeat is wanted at once
	suspect  sync.Mutex    // held while the one suspect of a crash runs
	share    atomic.Pointer[share]
	told     atomic.Bool // somebody calls Wake
	count    counters

	hard  context.Context // ends what runs
	abort context.CancelFunc
	idle  chan struct{} // closed when UntilIdle found nothing more to run

	taking    context.Context // until then workers take lanes
	working   sync.WaitGroup  // one for each worker that was not given up
	reading   sync.WaitGroup  // one for each lane that is read on
	workersMu sync.Mutex
	workers   map[*worker]struct{}

	cutMu sync.Mutex
	cuts  []string
}

type counters struct {
	processed, turns, failed, stuck, skipped, conflicts, swept, beats atomic.Int64
}

// Stats counts what a Processor did.
type Stats struct {
	// Processed events, skipped ones not included.
	Processed int64
	// Turns are committed transactions.
	Turns int64
	// Failed attempts, of any event.
	Failed int64
	// Stuck counts lanes that became stuck.
	Stuck int64
	// Skipped events, by their handler.
	Skipped int64
	// Conflicts are turns that ran again because of a deadlock, a serialization
	// failure or a short lock time-out.
	Conflicts int64
	// Swept events were found by the sweep, not by a notification.
	Swept int64
	// Lanes are tracked in memory now; Waiting of them wait for a worker.
	Lanes, Waiting int
}

// New makes a Processor on the caller's pool, which must allow Workers + 4
// connections for it to run at full speed. The registry must not change from
// here on.
func New(pool *pgxpool.Pool, reg *handlers.Registry, cfg Config) (*Processor, error) {
	if pool == nil {
		return nil, errors.New("ordering: the pool is nil")
	}
	if reg == nil {
		return nil, errors.New("ordering: the registry is nil; use handlers.New()")
	}
	given := cfg.Log
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("ordering: %w", err)
	}
	if cfg.Connect == nil {
		cfg.Connect = connectLike(pool)
	}
	if err := reg.Check(); err != nil {
		return nil, fmt.Errorf("ordering: %w", err)
	}
	p := &Processor{
		pool: pool, cfg: cfg, log: cfg.Log, entries: reg.Seal(), sql: statementsFor(cfg.Schema),
		sched:   newScheduler(cfg.Workers, cfg.Group, func() int { return int(pool.Stat().IdleConns()) }),
		idle:    make(chan struct{}),
		quiet:   &quiet{log: cfg.Log, said: map[string]int{}},
		breaker: newBreaker(cfg.Breaker.Lanes),
		types:   reg.Types(),
		pace:    newPace(reg.Types()),
		beatNow: make(chan struct{}, 1),
		workers: make(map[*worker]struct{}),
	}
	var err error
	if p.policies, err = newPolicies(cfg, p.entries); err != nil {
		return nil, fmt.Errorf("ordering: %w", err)
	}
	p.hooks.p = p
	for _, hook := range cfg.Hooks {
		if err := p.hooks.add(hook); err != nil {
			return nil, fmt.Errorf("ordering: %w", err)
		}
	}
	p.longest = cfg.HandlerTimeout
	for _, entry := range p.entries {
		p.longest = max(p.longest, entry.Timeout)
	}
	base := context.Background()
	if given != nil {
		base = handlers.WithLogger(base, given)
	}
	p.hard, p.abort = context.WithCancel(base)
	p.sched.eager = cfg.UntilIdle
	p.sweeper = newSweeper(p)
	p.outage = &outage{log: cfg.Log}
	p.share.Store(&share{index: 0, of: 1})
	return p, nil
}

// ProcessID is this process's number among those that run lanes; 0 before Run
// has registered it.
func (p *Processor) ProcessID() int32 { return p.id.Load() }

// Wake has lanes run that just got events, as inbox.OnStored reports them. It is
// a short cut past NOTIFY, and never needed for correctness.
func (p *Processor) Wake(lanes []int64) {
	p.told.Store(true)
	p.sched.wake(p.mine(lanes), false)
}

// Stats answers what was done so far.
func (p *Processor) Stats() Stats {
	lanes, waiting := p.sched.tracked()
	return Stats{
		Processed: p.count.processed.Load(), Turns: p.count.turns.Load(), Failed: p.count.failed.Load(),
		Stuck: p.count.stuck.Load(), Skipped: p.count.skipped.Load(), Conflicts: p.count.conflicts.Load(),
		Swept: p.count.swept.Load(), Lanes: lanes, Waiting: waiting,
	}
}

// Abort ends what runs at once: running handlers have their context cancelled,
// and their transactions are rolled back. Run then returns.
func (p *Processor) Abort() { p.abort() }

// Run runs lanes until ctx ends, then stops taking, waits for what runs, at most
// for Config.Drain, and returns: nil if nothing was cut short. With
// Config.UntilIdle it also returns when no lane can run any more. PostgreSQL
// being away is no reason to return: Run goes on trying. But it returns an error
// at its start if the server refuses what does not change by waiting: a schema that
// is not migrated, which is a SchemaError, a password, a missing right. A second
// Run is an error.
func (p *Processor) Run(ctx context.Context) error {
	if p.ran.Swap(true) {
		return errors.New("ordering: Run was called twice; a Processor runs once, make another one with New")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer p.abort()
	if most := int(p.pool.Config().MaxConns); most < p.cfg.Workers {
		p.log.Warn("the pool has fewer connections than there are workers, which wait for one another", "pool_max_conns", most, "workers", p.cfg.Workers)
	}
	if ok, err := p.register(ctx); !ok {
		return err // nil: stopped before the database could be reached
	}
	if err := p.beatOnce(ctx); err != nil && ctx.Err() == nil {
		p.outage.wait(ctx, err) // the share is known a little later
	}
	// Helpers run until the workers are done: a worker may need its heartbeat.
	helping, stopHelping := context.WithCancel(context.Background())
	defer stopHelping()
	var helpers sync.WaitGroup
	p.taking = ctx
	for _, help := range []func(context.Context){p.beat, p.listen, p.sweeper.run, p.settleLoop, p.watch} {
		helpers.Go(func() { help(helping) })
	}
	for range p.cfg.Workers {
		p.startWorker(ctx)
	}
	select {
	case <-ctx.Done():
	case <-p.idle:
	case <-p.hard.Done():
	}
	stop()
	p.sched.stop()
	err := p.drain()
	stopHelping()
	helpers.Wait()
	p.abort()
	p.reading.Wait()
	p.unregister()
	return err
}

// drain waits for the workers, and cuts them short at the deadline.
func (p *Processor) drain() error {
	done := make(chan struct{})
	go func() { p.working.Wait(); close(done) }()
	deadline := time.NewTimer(max(p.cfg.Drain, 0))
	defer deadline.Stop()
	select {
	case <-done:
		return p.cutShort()
	case <-deadline.C:
		p.log.Warn("the drain deadline has passed; rolling back what still runs", "drain", p.cfg.Drain.String())
	case <-p.hard.Done():
	}
	p.abort()
	grace := time.NewTimer(abortGrace)
	defer grace.Stop()
	select {
	case <-done:
		return p.cutShort()
	case <-grace.C:
	}
	var running []string
	for _, w := range p.listWorkers() {
		if name := w.runs(); name != "" {
			running = append(running, name)
		}
		w.giveUp(errGone)
		w.retire()
	}
	<-done
	if len(running) == 0 {
		return errors.Join(fmt.Errorf("what ran did not end within %s of the stop; its connections were closed", abortGrace), p.cutShort())
	}
	return errors.Join(fmt.Errorf("%d handlers did not return within %s of their context's end; their connections were closed: %s",
		len(running), abortGrace, strings.Join(running, ", ")), p.cutShort())
}

// abortGrace is how long a handler may take to notice that its context ended.
const abortGrace = 3 * time.Second

// noteCut remembers an event whose run a stop cut short.
func (p *Processor) noteCut(e *event, err error) {
	p.cutMu.Lock()
	defer p.cutMu.Unlock()
	if len(p.cuts) < 10 {
		p.cuts = append(p.cuts, e.name())
	}
	p.log.Warn("run cut short; it was rolled back and will run again",
		"event_id", e.ID, "aggregate_id", e.AggregateID, "event_type", e.Type, "error", err.Error())
}

// CutShortError is returned by Run when the drain deadline, or Abort, ended runs.
// They were rolled back, cost no attempt, and run again later.
type CutShortError struct {
	// Events names the first events of what was cut short, at most ten.
	Events []string
}

// Error names the events.
func (e *CutShortError) Error() string {
	return fmt.Sprintf("%d runs were cut short and rolled back: %v", len(e.Events), e.Events)
}

func (p *Processor) cutShort() error {
	p.cutMu.Lock()
	defer p.cutMu.Unlock()
	if len(p.cuts) == 0 {
		return nil
	}
	return &CutShortError{Events: p.cuts}
}

// buildVersion is the version of the main module, or the commit it was built from.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	return ""
}

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
