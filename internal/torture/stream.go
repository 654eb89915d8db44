//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/broker"
)

// The purposes of random sources.
const (
	purposeStream = iota + 1
	purposeSchedule
	purposePort
	purposeOperator
)

// made is an event that was made; its place among the made gives its id.
type made struct {
	aggregate int32
	n         int32
	amount    int32
	kind      kind
	detail    int32 // of Slow, the milliseconds; of Crash, how often
	confirmed bool  // its effect was seen
	sent      bool  // the broker has it
}

// kind is an event's type and what it does.
type kind uint8

const (
	credit1 kind = iota
	debit
	batched
	slowly
	fragile1
	forwarding
	crashing
	doomed1
	severed
	unknown
	kinds
)

var typeOf = [kinds]string{"Credit", "Debit", "Batch", "Slow", "Fragile", "Forward", "Crash", "Doomed", "Severed", "Unheard"}

// plain reports whether a kind never fails, so that it must have one attempt.
func (k kind) plain() bool { return k <= slowly || k == forwarding }

// final reports whether an event can never be done.
func (m *made) final() bool {
	return m.kind == doomed1 || m.kind == severed || m.kind == unknown || m.kind == crashing && m.detail < 0
}

// lineage is an aggregate as the producer knows it.
type lineage struct {
	name   string
	family string
	number int32 // events made
	final  bool  // one of them was final
	home   int32 // the partition of its events; known once one was sent
}

// stream makes the records of a run, one after the other, from a seed.
type stream struct {
	r          *rand.Rand
	zipf       *rand.Zipf
	aggregates []lineage
	events     []made
	chances    chances
	lastFinal  int // no event after so many is final: it needs time, and others to run beside it
}

// chances are how likely a new event is of a rare kind.
type chances struct{ final, crash, forever float64 }

func newStream(o options) *stream {
	r := o.random(purposeStream)
	s := &stream{r: r, zipf: rand.NewZipf(r, 1.15, 12, uint64(o.aggregates-1))}
	for i := range o.aggregates {
		family := "shop"
		if i%10 < 3 {
			family = "team"
		}
		s.aggregates = append(s.aggregates, lineage{name: fmt.Sprintf("%s-%04d", family, i), family: family})
	}
	events := float64(o.rate) * o.duration.Seconds()
	minutes := o.duration.Minutes()
	s.lastFinal = int(0.6 * events)
	s.chances = chances{
		final:   min(float64(o.aggregates)/20, 8+2*minutes) / events,
		crash:   (3 + 2*minutes) / events,
		forever: (1 + minutes/3) / events,
	}
	return s
}

func (s *stream) names() []string {
	names := make([]string, len(s.aggregates))
	for i := range s.aggregates {
		names[i] = s.aggregates[i].name
	}
	return names
}

// The first few aggregates get most events; final ones would stop them.
const hot = 20

// sort of what a record is.
type sort int

const (
	fresh sort = iota
	repeated
	altered
	poisoned
	ignored
)

// draft is a record to be produced.
type draft struct {
	sort   sort
	index  int // of the event, unless it is poison or ignored
	record *inbox.Record
}

// next makes the next record.
func (s *stream) next() draft {
	p := s.r.Float64()
	switch {
	case p < 0.002:
		return draft{sort: poisoned, record: s.poison()}
	case p < 0.012:
		return draft{sort: ignored, record: s.viewed()}
	case p < 0.038 && len(s.events) > 0:
		return s.again(p)
	}
	i := s.event()
	return draft{sort: fresh, index: i, record: s.record(i)}
}

// event makes a new event and answers its index.
func (s *stream) event() int {
	a := int32(s.zipf.Uint64())
	k, detail := s.choose(&a)
	g := &s.aggregates[a]
	g.number++
	m := made{aggregate: a, n: g.number, amount: int32(s.r.IntN(1000) - 300), kind: k, detail: detail}
	g.final = g.final || m.final()
	s.events = append(s.events, m)
	return len(s.events) - 1
}

// choose draws the kind of an event; a rare kind may want another aggregate.
func (s *stream) choose(a *int32) (k kind, detail int32) {
	p := s.r.Float64()
	c := s.chances
	if len(s.events) > s.lastFinal {
		c = chances{}
	}
	switch {
	case p < c.final:
		*a = s.quiet("")
		if s.aggregates[*a].family == "team" {
			return doomed1, 0
		}
		return []kind{doomed1, doomed1, unknown, severed}[s.r.IntN(4)], 0
	case p < c.final+c.crash:
		*a = s.quiet("team")
		return crashing, int32(1 + s.r.IntN(2))
	case p < c.final+c.crash+c.forever:
		*a = s.quiet("team")
		return crashing, -1
	}
	p = s.r.Float64()
	switch {
	case p < 0.01:
		return slowly, int32(50 + s.r.IntN(450))
	case p < 0.012:
		return fragile1, int32(200 + s.r.IntN(12000)) // milliseconds until it is repaired
	}
	if s.aggregates[*a].family == "team" {
		switch {
		case p < 0.05:
			return forwarding, int32(s.r.IntN(len(sinks())))
		case p < 0.40:
			return batched, 0
		}
	}
	return kind(s.r.IntN(2)), 0 // credit1 or debit
}

// quiet draws an aggregate that gets few events and has no final one yet.
func (s *stream) quiet(family string) int32 {
	for range 1000 {
		a := int32(hot + s.r.IntN(len(s.aggregates)-hot))
		if g := &s.aggregates[a]; !g.final && (family == "" || g.family == family) {
			return a
		}
	}
	return int32(len(s.aggregates) - 1)
}

// again repeats an event: one of the last, or any; altered, or from another
// partition if it has long been done.
func (s *stream) again(p float64) draft {
	n := len(s.events)
	i := s.r.IntN(n)
	if p < 0.025 {
		i = n - 1 - s.r.IntN(min(n, 50))
	}
	d := draft{sort: repeated, index: i, record: s.record(i)}
	if p > 0.037 {
		d.sort = altered
		d.record.Value = []byte(strings.Replace(string(d.record.Value), `{`, `{"altered":true,`, 1))
	}
	if other := s.r.Int32N(topics[d.record.Source.Topic]); s.events[i].confirmed {
		d.record.Source.Partition = other
	}
	return d
}

// id is the event's identity.
func (s *stream) id(i int) string {
	return fmt.Sprintf("%s.%d", s.aggregates[s.events[i].aggregate].family, i)
}

// indexOf is the inverse of id; -1: it is no id of the stream.
func (s *stream) indexOf(id string) int {
	_, number, ok := strings.Cut(id, ".")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i < 0 || i >= len(s.events) || s.id(i) != id {
		return -1
	}
	return i
}

// record is the event as a record, the same each time.
func (s *stream) record(i int) *inbox.Record {
	m := &s.events[i]
	g := &s.aggregates[m.aggregate]
	body := payload{N: int64(m.n), Amount: int64(m.amount), Broken: m.kind == fragile1}
	switch m.kind {
	case slowly:
		body.MS = int(m.detail)
	case crashing:
		body.Crashes = int(m.detail)
	case forwarding:
		body.To = sinks()[m.detail]
	}
	if i%400 == 7 { // larger than what is read ahead
		body.Pad = strings.Repeat("x", 9<<10+i%(30<<10))
	}
	r := &inbox.Record{Source: inbox.Source{Topic: g.family, Partition: broker.ByKey}}
	if m.aggregate%7 == 0 { // all fields in the value; the partition is the aggregate's own
		r.Source.Partition = m.aggregate % topics[g.family]
		body.EventID, body.OrderID, body.EventType = s.id(i), g.name, typeOf[m.kind]
	} else {
		r.Key = []byte(g.name)
		r.Headers = []inbox.Header{{Name: "id", Value: []byte(s.id(i))}, {Name: "eventType", Value: []byte(typeOf[m.kind])}}
	}
	r.Value = encode(body)
	return r
}

func encode(body payload) []byte {
	b, err := json.Marshal(body)
	if err != nil { // it always encodes
		panic(err)
	}
	return b
}

// viewed is an event of a type that is ignored.
func (s *stream) viewed() *inbox.Record {
	g := &s.aggregates[s.zipf.Uint64()]
	return &inbox.Record{
		Source: inbox.Source{Topic: g.family, Partition: broker.ByKey}, Key: []byte(g.name), Value: []byte(`{"n": -1, "amount": 0}`),
		Headers: []inbox.Header{{Name: "id", Value: fmt.Appendf(nil, "viewed-%d", s.r.Uint64())}, {Name: "eventType", Value: []byte("Viewed")}},
	}
}

// poisonMark is a header of records that must end in quarantine.
const poisonMark = "poison"

// poison is a record that cannot become an event.
func (s *stream) poison() *inbox.Record {
	topic := []string{"shop", "team"}[s.r.IntN(2)]
	r := &inbox.Record{
		Source: inbox.Source{Topic: topic, Partition: s.r.Int32N(topics[topic])}, Key: []byte("nobody"),
		Headers: []inbox.Header{{Name: poisonMark, Value: []byte("yes")}, {Name: "eventType", Value: []byte("Credit")}},
	}
	id := inbox.Header{Name: "id", Value: fmt.Appendf(nil, "poison-%d", s.r.Uint64())}
	switch s.r.IntN(5) {
	case 0:
		r.Value, r.Headers = []byte(`{"n": 1, "amount": `), append(r.Headers, id)
	case 1:
		r.Value = []byte(`{"n": 1, "amount": 1}`) // no id
	case 2:
		r.Value, r.Key, r.Headers = []byte(`{"n": 1, "amount": 1}`), nil, append(r.Headers, id) // no aggregate
	case 3:
		r.Value, r.Headers = nil, append(r.Headers, id) // nothing
	case 4:
		r.Value = []byte("{\"eventId\": \"nul\\u0000\", \"n\": 1}")
	}
	return r
}

// repairAfter is how long a fragile event stays broken.
func (m *made) repairAfter() time.Duration { return time.Duration(m.detail) * time.Millisecond }
