package ordering_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// The model test runs random sequences of steps against the real thing and,
// beside it, against a model that fits on a page. After each step the tables
// must hold what violationsSQL asks for, and what the model says.
//
// A handler does what its event's script says. What it counts, it counts in the
// database (recorded failures), so that the model stays exact through crashes.

// modelAttempts is the processors' Retry.Attempts.
const modelAttempts = 4

// script is what the handler of an event does.
type script struct {
	Fails  int    `json:"fails"`  // until so many failures are recorded for the event
	Pauses int    `json:"pauses"` // so many calls at first, uncounted
	Then   string `json:"then"`   // ok, skip or permanent
}

type modelEvent struct {
	id      string
	form    string
	script  script
	failed  int // recorded failures
	crashed int // attempts counted beforehand that have not ended
	skipped bool
}

type modelLane struct {
	name     string
	events   []*modelEvent
	cursor   int
	stuck    bool
	paused   bool
	attempts int
	crashes  int
}

func (l *modelLane) open() bool { return !l.stuck && !l.paused && l.cursor < len(l.events) }

// known reports whether the lane has a row.
func (l *modelLane) known() bool { return len(l.events) > 0 }

// place is what can be seen of a lane between two steps of a processor.
type modelPlace struct {
	cursor, attempts, failed int
	stuck                    bool
}

func (l *modelLane) place() modelPlace {
	p := modelPlace{cursor: l.cursor, attempts: l.attempts, stuck: l.stuck && !l.paused}
	if l.cursor < len(l.events) {
		p.failed = l.events[l.cursor].failed
	}
	return p
}

// step does what a processor does next with an open lane.
func (l *modelLane) step() {
	e := l.events[l.cursor]
	switch {
	case l.crashes > 0 && l.attempts+l.crashes >= modelAttempts:
		l.attempts, l.stuck = l.attempts+l.crashes, true
		e.failed += e.crashed
	case e.failed < e.script.Fails:
		e.failed++
		l.attempts++
		l.stuck = l.attempts >= modelAttempts
	case e.script.Then == "permanent":
		e.failed++
		l.attempts++
		l.stuck = true
	default:
		e.skipped = e.script.Then == "skip"
		l.cursor++
		l.attempts = 0
	}
	l.crashes, e.crashed = 0, 0
}

// release is what an operator's retry does.
func (l *modelLane) release() { l.stuck, l.attempts, l.crashes = false, 0, 0 }

// pass is what an operator's skip does.
func (l *modelLane) pass() {
	l.events[l.cursor].skipped = true
	l.cursor++
	l.release()
}

type model struct {
	lanes []*modelLane
	ids   map[string]*modelEvent
}

func newModel() *model {
	m := &model{ids: map[string]*modelEvent{}}
	for i := range modelLanes {
		m.lanes = append(m.lanes, &modelLane{name: fmt.Sprint("agg-", i)})
	}
	return m
}

const modelLanes = 4

// step is one of the random steps; it changes the model and the real thing.
type step interface {
	do(t *rapid.T, w *world)
}

var genScript = rapid.Custom(func(t *rapid.T) script {
	return script{
		Fails:  rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, modelAttempts + 1}).Draw(t, "fails"),
		Pauses: rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "pauses"),
		Then:   rapid.SampledFrom([]string{"ok", "ok", "ok", "ok", "ok", "skip", "permanent"}).Draw(t, "then"),
	}
})

var genPut = rapid.Custom(func(t *rapid.T) step {
	return put{rapid.SliceOfN(rapid.Custom(func(t *rapid.T) putEvent {
		return putEvent{
			Lane:   rapid.IntRange(0, modelLanes-1).Draw(t, "lane"),
			ID:     rapid.IntRange(0, 59).Draw(t, "id"),
			Form:   rapid.SampledFrom([]string{"On", "On", "Queue", "Batch"}).Draw(t, "form"),
			Script: genScript.Draw(t, "script"),
		}
	}), 1, 10).Draw(t, "events")}
})

var genRun = rapid.Custom(func(t *rapid.T) step {
	return run{
		Processors: rapid.IntRange(1, 2).Draw(t, "processors"),
		Workers:    rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "workers"),
		Batch:      rapid.SampledFrom([]int{1, 3, 16}).Draw(t, "batch"),
		Group:      rapid.SampledFrom([]int{1, 4}).Draw(t, "group"),
		After:      rapid.IntRange(1, 12).Draw(t, "after"),
		Fault:      rapid.SampledFrom([]string{"", "", "stop", "abort", "terminate"}).Draw(t, "fault"),
	}
})

func genLane[S step](make func(lane int) S) *rapid.Generator[step] {
	return rapid.Map(rapid.IntRange(0, modelLanes-1), func(lane int) step { return make(lane) })
}

var genStep = rapid.OneOf(genPut, genPut, genRun, genRun,
	genLane(func(lane int) retry { return retry{lane} }),
	genLane(func(lane int) skip { return skip{lane} }),
	genLane(func(lane int) pause { return pause{lane} }),
	genLane(func(lane int) resume { return resume{lane} }),
	rapid.Custom(func(t *rapid.T) step {
		return replay{rapid.IntRange(0, modelLanes-1).Draw(t, "lane"), rapid.IntRange(1, 6).Draw(t, "from")}
	}),
	genLane(func(lane int) crash { return crash{lane} }),
	genLane(func(lane int) die { return die{lane} }),
	genLane(func(lane int) settle { return settle{lane} }),
	rapid.Just[step](segment{}),
)

func TestModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	last := run{Processors: 1, Workers: 2, Batch: 16, Group: 4}
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(genStep, 1, 12).Draw(rt, "steps")
		w.reset(rt)
		for _, s := range append(steps, last) {
			s.do(rt, w)
			w.check(rt, fmt.Sprintf("after %T", s))
		}
	})
}
