//go:build linux

package main

import (
	"math/rand/v2"
	"time"
)

// planned is a fault to come: when, of what kind, and what was drawn for it.
type planned struct {
	at   time.Duration
	kind string
	pick int     // which of several
	a    float64 // how long, in the bounds of the kind
}

// The kinds of faults, each as often as it is named.
var faultKinds = []string{
	"kill", "kill", "kill", "freeze", "freeze", "blink", "term", "term", "leave", "join",
	"kill family", "postgres immediate", "postgres fast", "postgres crash", "postgres pause",
	"sessions all", "sessions some", "broker kill", "broker restart", "broker freeze",
	"row locks", "row locks", "long snapshot", "operator retry",
}

// Faults come alone at first, so that it shows what each does, then close
// together for a while, and so on. The first alone are the first of these.
var aloneKinds = []string{
	"kill", "freeze", "kill", "postgres immediate", "term", "kill", "sessions all", "freeze",
	"broker kill", "postgres crash", "kill family", "row locks", "postgres fast", "blink",
}

// The times of the schedule.
const (
	warmUp    = 4 * time.Second
	coolDown  = 3 * time.Second
	alone     = 2                // so many alone
	apart     = 14 * time.Second // from one alone to the next fault
	together  = 30 * time.Second // close together for so long
	gapMin    = 500 * time.Millisecond
	gapMax    = 4 * time.Second
	restAfter = 10 * time.Second // from the last of those to one alone
)

// deck deals kinds like cards, so that a short run has many of them.
type deck struct {
	r    *rand.Rand
	left []string
}

func (d *deck) next() string {
	if len(d.left) == 0 {
		for _, i := range d.r.Perm(len(faultKinds)) {
			d.left = append(d.left, faultKinds[i])
		}
	}
	kind := d.left[0]
	d.left = d.left[1:]
	return kind
}

// plan draws the schedule.
func (o options) plan() []planned {
	r := o.random(purposeSchedule)
	d := &deck{r: r}
	end := o.duration - coolDown
	var plan []planned
	add := func(at time.Duration, kind string) {
		if at < end {
			plan = append(plan, planned{at: at, kind: kind, pick: r.IntN(1 << 20), a: r.Float64()})
		}
	}
	single := 0
	for at := warmUp; at < end; {
		for range alone {
			add(at, aloneKinds[single%len(aloneKinds)])
			single++
			at += apart
		}
		for until := at + together; at < until; {
			add(at, d.next())
			at += gapMin + time.Duration(r.Float64()*float64(gapMax-gapMin))
		}
		at += restAfter
	}
	return plan
}

// between is a duration from low to high, as x of 0 to 1 says.
func between(low, high time.Duration, x float64) time.Duration {
	return low + time.Duration(x*float64(high-low))
}
