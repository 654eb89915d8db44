package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/ordering"
)

// watch notes when the first lane is read.
type watch struct {
	armed atomic.Bool
	began atomic.Int64 // in nanoseconds of Unix time; 0: not yet
}

func (w *watch) arm() {
	w.began.Store(0)
	w.armed.Store(true)
}

// first is when the first lane was read; otherwise if none was.
func (w *watch) first(otherwise time.Time) time.Time {
	if at := w.began.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return otherwise
}

// TraceQueryStart implements pgx.QueryTracer.
func (w *watch) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if w.armed.Load() && strings.Contains(q.SQL, ".load(") && w.armed.Swap(false) {
		w.began.Store(time.Now().UnixNano())
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (w *watch) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// engine is a Processor that runs.
type engine struct {
	p      *ordering.Processor
	began  time.Time
	cancel context.CancelFunc
	done   chan error
}

func startEngine(pool *pgxpool.Pool, reg *handlers.Registry, cfg ordering.Config) (*engine, error) {
	p, err := ordering.New(pool, reg, cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &engine{p: p, began: time.Now(), cancel: cancel, done: make(chan error, 1)}
	go func() { e.done <- p.Run(ctx) }()
	return e, nil
}

// stallLimit is how long nothing may happen before a side is given up.
const stallLimit = 2 * time.Minute

// errStalled is returned when events are left that nothing runs.
var errStalled = errors.New("events are left and nothing runs them")

// poll is how often a side that runs is looked at.
const poll = 500 * time.Microsecond

// await waits until done answers true, and gives up when progress has stood
// still for stallLimit.
func await(ctx context.Context, every time.Duration, progress func() (count int64, done bool, err error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last, moved := int64(-1), time.Now()
	for {
		count, done, err := progress()
		if err != nil || done {
			return err
		}
		if count != last {
			last, moved = count, time.Now()
		}
		if time.Since(moved) > stallLimit {
			return fmt.Errorf("%w: %d were run", errStalled, count)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// processed waits until n events are processed.
func (e *engine) processed(ctx context.Context, n int64) error {
	err := await(ctx, poll, func() (int64, bool, error) {
		done := e.p.Stats().Processed
		return done, done >= n, nil
	})
	if errors.Is(err, errStalled) {
		return fmt.Errorf("%w; %d attempts failed", err, e.p.Stats().Failed)
	}
	return err
}

// left waits until no lane is tracked: all are marked as done.
func left(ctx context.Context, e *engine) error {
	return await(ctx, 5*time.Millisecond, func() (int64, bool, error) {
		lanes := e.p.Stats().Lanes
		return int64(lanes), lanes == 0, nil
	})
}

// stop ends the run after what it has begun and answers how many events it
// processed.
func (e *engine) stop() (int64, error) {
	e.cancel()
	err := <-e.done
	return e.p.Stats().Processed, err
}

// config is that of a process with the stage's schema.
func (s *stage) config(batch int) ordering.Config {
	return ordering.Config{Schema: s.schema, Workers: workers, Batch: batch}
}

// stint is a run of a stage's lanes.
type stint struct {
	name   string // of its profile
	batch  int
	skip   int64 // events that run before the time begins; 0: it begins with the first
	events int64 // events that are timed
	// then is waited for, untimed, before lanes are stopped; nil: nothing is.
	then func(context.Context, *engine) error
}

// run runs the stage's lanes and times that. It answers also the violations of
// all that ran, which may be some more events.
func (s *stage) run(ctx context.Context, r stint) (own side, violations int64, err error) {
	reg, err := s.own.registry()
	if err != nil {
		return own, 0, err
	}
	stopProfile, err := s.b.profile(r.name)
	if err != nil {
		return own, 0, err
	}
	s.watch.arm()
	e, err := startEngine(s.pool, reg, s.config(r.batch))
	if err != nil {
		return own, 0, errors.Join(err, stopProfile())
	}
	own, waited := e.time(ctx, s.watch, r)
	if waited == nil && r.then != nil {
		waited = r.then(ctx, e)
	}
	total, err := e.stop()
	if err := errors.Join(waited, err, stopProfile()); err != nil {
		return own, 0, err
	}
	violations, err = s.own.audit(ctx, s.pool, total)
	return own, violations, err
}

// time waits for the events of r and times them. So few of them that they ran
// together with those to skip are timed together with them.
func (e *engine) time(ctx context.Context, w *watch, r stint) (side, error) {
	var before int64
	var began time.Time
	if r.skip > 0 {
		if err := e.processed(ctx, r.skip); err != nil {
			return side{}, err
		}
		before, began = e.p.Stats().Processed, time.Now()
	}
	err := e.processed(ctx, r.skip+r.events)
	now, counted := time.Now(), e.p.Stats().Processed
	if r.skip == 0 || before >= r.skip+r.events/2 {
		before, began = 0, w.first(e.began)
	}
	return side{counted - before, now.Sub(began)}, err
}

// profile begins a CPU profile, if those are wanted, and answers what ends it.
func (b *bench) profile(name string) (stop func() error, err error) {
	if b.Profiles == "" {
		return func() error { return nil }, nil
	}
	file := strings.ReplaceAll(b.doing+"-"+name, " ", "-") + ".pprof"
	f, err := os.Create(filepath.Join(b.Profiles, file))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
