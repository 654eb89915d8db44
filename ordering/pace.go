package ordering

import (
	"sync"
	"sync/atomic"
	"time"
)

// Lanes that share a transaction wait for one another. A call of a handler that
// takes longer than slowCall gives its lane turns of its own. A turn begins no
// further lane after longTurn, and no further event of a lane after longRun: an
// operator or a stop may wait for it. A whole turn that is slow gives each of its lanes
// a turn of its own, until it shows which one it was.
const (
	slowCall = 20 * time.Millisecond
	longTurn = 50 * time.Millisecond
	longRun  = 250 * time.Millisecond
)

// aloneTurns is how long a lane that was slow or failed has transactions of its
// own; it is counted down with each turn that was not slow.
const aloneTurns = 32

// fewEvents is how many events of a lane share a transaction while nobody knows
// how long their type takes, or it is known to take long: whoever waits for the
// lane, an operator or a stop, waits for the transaction. quickTurn is what a turn
// takes at most from which a type is known to be quick.
const (
	fewEvents = 2
	quickTurn = time.Second
)

// pace knows how long turns typically take. What is slow depends on it: on a
// busy machine all turns are long, and that is no lane's fault.
type pace struct {
	mu      sync.Mutex
	typical time.Duration

	quick map[string]*atomic.Bool // by event type: its last turn was not slow
}

func newPace(types []string) *pace {
	p := &pace{quick: make(map[string]*atomic.Bool, len(types))}
	for _, t := range types {
		p.quick[t] = &atomic.Bool{}
	}
	return p
}

// known reports whether the type is known to be quick.
func (p *pace) known(eventType string) bool {
	q := p.quick[eventType]
	return q == nil || q.Load()
}

// ran takes note of an event of the type in a turn of one lane, or in one that
// was quick.
func (p *pace) ran(eventType string, quick bool) {
	if q := p.quick[eventType]; q != nil && q.Load() != quick {
		q.Store(quick)
	}
}

// slow takes note of a turn and reports whether it was slow.
func (p *pace) slow(took time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.typical == 0 {
		p.typical = min(took, slowCall)
	}
	slow := took > slowCall && took > 4*p.typical
	// One long turn moves the typical time by a tenth at most.
	p.typical += (min(took, 2*p.typical) - p.typical) / 10
	return slow
}
