package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Level is the scenario that asks whether rate and table sizes stay level in a
// long run at full rate, which W1 to W10 are too short to show. It runs only when
// it is named.
const Level = "level"

// How long Level runs unless Options.For says so, and the shortest run that says
// anything.
const (
	LevelDefault = 5 * time.Minute
	LevelMinimum = 10 * time.Second
)

const (
	// levelFeeders is how many connections store events.
	levelFeeders = 4
	// levelPoll is how often a feeder that is ahead looks whether there is room.
	levelPoll = 2 * time.Millisecond
	// levelSamples are at least so many; a run of more minutes has one a minute.
	levelSamples = 10
)

// errTooLittle is returned when there is nothing to hold the last third against.
var errTooLittle = errors.New("too little ran in the first third of the time to compare the last with it; run for longer")

// level stores events as fast as lanes run them, or lanes run them as fast as
// they are stored, for Options.For: 1,000 aggregates, at most 20,000 events
// pending. That many wait when it begins; nothing is vacuumed by hand after that.
// What stands in the tables is noted once a minute, and judge says what it means.
func level(ctx context.Context, b *bench) (out []Result, err error) {
	aggregates, perLane := spread(b.events(20_000), 1000, 20)
	s, err := b.newStage(ctx, aggregates, workers+reserve+levelFeeders+1)
	if err != nil {
		return nil, err
	}
	defer s.close()
	lanes := group{to: aggregates}
	if err := s.prepare(ctx, func(ctx context.Context) error { return s.feed(ctx, &lanes, formSQL, perLane) }); err != nil {
		return nil, err
	}
	backlog := aggregates * perLane
	l := &levelRun{s: s, lanes: lanes, backlog: int64(backlog), step: min(put, backlog/4), length: b.For}
	if l.length <= 0 {
		l.length = LevelDefault
	}
	l.fed.Store(l.backlog)
	violations, err := l.run(ctx)
	if err != nil {
		return nil, err
	}
	v := judge(l.samples)
	if v.rates[0] <= 0 || v.perEvent[0] <= 0 {
		return nil, errTooLittle
	}
	v.explain(b.remark)
	return v.results(aggregates, l.fed.Load(), violations), nil
}

// levelRun is one run of it.
type levelRun struct {
	s       *stage
	lanes   group
	backlog int64 // events that may be pending
	step    int   // events that a feeder stores at once, about
	length  time.Duration

	engine  *engine
	fed     atomic.Int64 // events that were stored, or are being stored
	over    atomic.Bool  // feeders are to end
	samples []sample
}

// run feeds and runs lanes for the time given, then lets them run what is left.
func (l *levelRun) run(ctx context.Context) (violations int64, err error) {
	reg, err := l.s.own.registry()
	if err != nil {
		return 0, err
	}
	stopProfile, err := l.s.b.profile("run")
	if err != nil {
		return 0, err
	}
	if l.engine, err = startEngine(l.s.pool, reg, l.s.config(batch)); err != nil {
		return 0, errors.Join(err, stopProfile())
	}
	waited := l.busy(ctx)
	if waited == nil {
		waited = l.engine.processed(ctx, l.fed.Load())
	}
	_, err = l.engine.stop()
	if err := errors.Join(waited, err, stopProfile()); err != nil {
		return 0, err
	}
	return l.s.own.audit(ctx, l.s.pool, l.fed.Load())
}

// busy feeds and samples until the time is over. The first error ends all of it:
// a full disk is one, of PostgreSQL's.
func (l *levelRun) busy(ctx context.Context) error {
	feeders := min(levelFeeders, l.lanes.size())
	return parallel(ctx, feeders+1, func(ctx context.Context, part int) error {
		if part == feeders {
			return l.watch(ctx)
		}
		from := l.lanes.from + l.lanes.size()*part/feeders
		to := l.lanes.from + l.lanes.size()*(part+1)/feeders
		return l.feed(ctx, group{from: from, to: to, fed: l.lanes.fed})
	})
}

// feed stores events of some lanes whenever there is room in the backlog.
func (l *levelRun) feed(ctx context.Context, lanes group) error {
	perLane := max(1, l.step/lanes.size())
	more := int64(perLane * lanes.size())
	for {
		err := await(ctx, levelPoll, func() (int64, bool, error) {
			done := l.engine.p.Stats().Processed
			return done, l.over.Load() || l.fed.Load()+more-done <= l.backlog, nil
		})
		if err != nil || l.over.Load() {
			return err
		}
		l.fed.Add(more)
		if err := feedTo(ctx, l.s.store, lanes.from, lanes.to, lanes.fed, formSQL, perLane); err != nil {
			return err
		}
		lanes.fed += int64(perLane)
	}
}

// watch takes samples, and says when it is over.
func (l *levelRun) watch(ctx context.Context) error {
	defer l.over.Store(true)
	count := max(levelSamples, int(l.length/time.Minute))
	began := time.Now()
	for i := range count + 1 {
		pause(ctx, time.Until(began.Add(l.length*time.Duration(i)/time.Duration(count))))
		if err := ctx.Err(); err != nil {
			return err
		}
		now, err := l.sample(ctx, time.Since(began))
		if err != nil {
			return err
		}
		l.samples = append(l.samples, now)
		if i == 0 {
			l.s.b.remark("%s", sampleHead)
		} else {
			l.s.b.remark("%s", now.text(l.samples[i-1]))
		}
		l.s.b.progress("sample %d of %d", i+1, count)
	}
	return nil
}
