//go:build linux

package main

import (
	"time"
)

// planned is a fault to come: when, of what kind, and what was drawn for it.
type planned struct {
	at   time.Duration
	kind string
	pick int     // which of several
	a, b float64 // how long, in the bounds of the kind
}

// The kinds of faults, each as often as it is named.
var faultKinds = []string{
	"kill", "kill", "kill", "freeze", "freeze", "blink", "term", "term", "leave", "join",
	"kill family", "postgres immediate", "postgres fast", "postgres crash", "postgres pause",
	"sessions all", "sessions some", "broker kill", "broker restart", "broker freeze",
	"row locks", "row locks", "long snapshot", "operator retry",
}

// The first fault comes after warmUp, the last one coolDown before the end, and
// the one after it after gapMin to gapMax, or at once.
const (
	warmUp   = 4 * time.Second
	coolDown = 3 * time.Second
	gapMin   = time.Second
	gapMax   = 4 * time.Second
	atOnce   = 0.2
)

// plan draws the schedule. Kinds are dealt like cards, so that a short run has
// many of them.
func (o options) plan() []planned {
	r := o.random(purposeSchedule)
	var plan []planned
	var deck []string
	for at := warmUp; at < o.duration-coolDown; {
		if len(deck) == 0 {
			for _, i := range r.Perm(len(faultKinds)) {
				deck = append(deck, faultKinds[i])
			}
		}
		plan = append(plan, planned{at: at, kind: deck[0], pick: r.IntN(1 << 20), a: r.Float64(), b: r.Float64()})
		deck = deck[1:]
		gap := gapMin + time.Duration(r.Float64()*float64(gapMax-gapMin))
		if r.Float64() < atOnce {
			gap = time.Duration(r.Float64() * float64(500*time.Millisecond))
		}
		at += gap
	}
	return plan
}

// between is a duration from low to high, as x of 0 to 1 says.
func between(low, high time.Duration, x float64) time.Duration {
	return low + time.Duration(x*float64(high-low))
}
