//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// judge checks everything, after all processes have stopped.
func (w *world) judge(ctx context.Context) error {
	w.say("everything has stopped, checking")
	f, err := w.readFacts(ctx)
	if err != nil {
		return err
	}
	e := w.stream.expect()
	w.numbers.effects, w.numbers.stored = len(f.effects), len(f.inbox)
	w.judgeBroker(f)
	w.judgeEffects(f, e)
	w.judgeOrder(f, e)
	w.judgeInbox(f, e)
	w.judgeAttempts(f, e)
	for _, step := range []func(context.Context) error{w.judgeBalances, w.judgeLeftovers} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := w.judgeLanes(ctx, e); err != nil {
		return err
	}
	w.judgeCrashes()
	w.judgeLimits()
	w.judgeLogs()
	w.measure(f)
	w.runVerify(ctx)
	return w.keepEvidence(ctx)
}

func idInside(value []byte) string {
	var p payload
	_ = json.Unmarshal(value, &p) // what is no JSON has no id
	return p.EventID
}

// judgeBroker looks whether the broker did its part: what it lost or mixed up
// would look like inboxd's fault.
func (w *world) judgeBroker(f *facts) {
	for i := range w.stream.events {
		if w.stream.events[i].sent && !f.inLog[i] {
			w.findings.add("torture", "the broker took event %s and does not have it", w.stream.id(i))
		}
	}
	for a := range f.misfiled {
		w.findings.add("torture", "the broker has the events of %s in another order than they were sent", w.stream.aggregates[a].name)
	}
}

// judgeEffects: nothing lost, nothing doubled, nothing that must not be.
func (w *world) judgeEffects(f *facts, e *expectation) {
	for i := range w.stream.events {
		m := &w.stream.events[i]
		if m.sent {
			w.judgeEffect(f, w.stream.id(i), w.stream.aggregates[m.aggregate].name, e.done[i])
		}
	}
	for id := range e.forwarded {
		w.judgeEffect(f, id, f.inbox[id].aggregate, true)
	}
	for id, rows := range f.byID {
		if w.stream.indexOf(id) < 0 && !e.forwarded[id] {
			w.findings.addFor(f.effects[rows[0]].aggregate, "effect of nothing", "event %s was never produced", id)
		}
	}
}

func (w *world) judgeEffect(f *facts, id, aggregate string, done bool) {
	rows := f.byID[id]
	switch {
	case done && len(rows) == 0:
		w.findings.addFor(aggregate, "lost", "event %s of %s has no effect (inbox: %s)", id, aggregate, f.inbox[id])
	case len(rows) > 1:
		w.findings.addFor(aggregate, "doubled", "event %s of %s has %d effects: %s", id, aggregate, len(rows), f.describe(rows))
	case !done && len(rows) > 0:
		w.findings.addFor(aggregate, "passed over", "event %s of %s took effect, though its lane has to be stuck at or before it: %s", id, aggregate, f.describe(rows))
	}
}

func (f *facts) describe(rows []int) string {
	var parts []string
	for _, r := range rows {
		e := f.effects[r]
		parts = append(parts, fmt.Sprintf("[seq %d position %d n %d prev %d at %s tx %d by %s]",
			e.seq, e.position, e.n, e.prev, e.at.UTC().Format("15:04:05.000000"), e.txid, e.worker))
	}
	return strings.Join(parts, " ")
}

func (s stored) String() string {
	if s.aggregate == "" {
		return "not there"
	}
	done := "unprocessed"
	if s.processed != nil {
		done = "processed " + s.processed.UTC().Format("15:04:05.000000")
	}
	return fmt.Sprintf("%s position %d, received %s, %s, attempts %d", s.aggregate, s.position, s.received.UTC().Format("15:04:05.000000"), done, s.attempts)
}

// judgeOrder: within an aggregate effects follow one another as the producer
// numbered the events, each on what the one before it left, in time, in
// transactions and in position.
func (w *world) judgeOrder(f *facts, e *expectation) {
	isSink := map[string]bool{}
	for _, s := range sinks() {
		isSink[s] = true
	}
	for i := 1; i < len(f.effects); i++ {
		a, b := &f.effects[i-1], &f.effects[i]
		if a.aggregate != b.aggregate {
			continue
		}
		wrong := ""
		switch {
		case b.position <= a.position:
			wrong = "position"
		case b.txid < a.txid:
			wrong = "transaction"
		case b.at.Before(a.at):
			wrong = "time"
		case isSink[b.aggregate]: // from many producers
		case b.n != a.n+1:
			wrong = "number"
		case b.prev != a.n:
			wrong = "balance"
		}
		if wrong != "" {
			w.findings.addFor(b.aggregate, "swapped", "%s, by %s: %s", b.aggregate, wrong, f.describe([]int{i - 1, i}))
		}
	}
	_ = e
}

// judgeInbox: every event is stored once, in its place, and poison is in
// quarantine once.
func (w *world) judgeInbox(f *facts, e *expectation) {
	for i := range w.stream.events {
		m := &w.stream.events[i]
		if !m.sent {
			continue
		}
		id := w.stream.id(i)
		s, ok := f.inbox[id]
		name := w.stream.aggregates[m.aggregate].name
		switch {
		case !ok:
			w.findings.addFor(name, "not stored", "event %s of %s", id, name)
		case s.aggregate != name || s.position != int64(m.n):
			w.findings.addFor(name, "misplaced", "event %s is event %d of %s, but stored as %s", id, m.n, name, s)
		case e.done[i] != (s.processed != nil) || s.skipped != nil:
			w.findings.addFor(name, "view", "event %s of %s: %s; it should be done: %t", id, name, s, e.done[i])
		}
	}
	for id, s := range f.inbox {
		if w.stream.indexOf(id) < 0 && !e.forwarded[id] {
			w.findings.addFor(s.aggregate, "stored from nothing", "event %s: %s", id, s)
		}
	}
	for p := range f.poison {
		if f.refused[p] != 1 {
			w.findings.add("quarantine", "poison at %s/%d/%d is there %d times", p.topic, p.partition, p.offset, f.refused[p])
		}
	}
	for p := range f.refused {
		if f.poison[p] == 0 {
			w.findings.add("quarantine", "the record at %s/%d/%d is in quarantine, but is no poison", p.topic, p.partition, p.offset)
		}
	}
}

// judgeAttempts: an event that never failed has one attempt.
func (w *world) judgeAttempts(f *facts, e *expectation) {
	n := &w.numbers
	var lines []string
	for i := range w.stream.events {
		m := &w.stream.events[i]
		name := w.stream.aggregates[m.aggregate].name
		if !e.done[i] || !m.kind.plain() || len(w.held.spans[name]) > 0 {
			continue
		}
		n.innocents++
		if s := f.inbox[w.stream.id(i)]; s.processed != nil && s.attempts != 1 {
			n.overAttempts++
			lines = append(lines, fmt.Sprintf("event %s (%s) of %s has %d attempts", w.stream.id(i), typeOf[m.kind], name, s.attempts))
			if len(lines) <= 3 {
				w.findings.aggregates = append(w.findings.aggregates, name)
			}
		}
	}
	if n.overAttempts*1000 > n.innocents {
		for _, line := range lines {
			w.findings.add("attempts", "%s", line)
		}
	}
}
