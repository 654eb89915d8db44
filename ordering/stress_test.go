package ordering_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	stressLanes  = 5
	stressRounds = 16
	stressSteps  = 40
)

// Many sessions take the steps of processors, settlers, operators and ingest at
// random, on a few lanes. At no moment is a lane parked while it is ready, or
// out of reach with work to do; and at the end everything runs.
func TestSettlersAndProcessorsAtRandom(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.put("Paid", stressLanes, 5)
	var events atomic.Int64
	players := []func(*player){
		(*player).process, (*player).process, (*player).process, (*player).process,
		func(p *player) { p.store(&events) },
		func(p *player) { p.settle(p.someLanes()...) },
		(*player).operate,
	}
	crew := make([]*player, len(players))
	for i := range players {
		crew[i] = &player{session: s.session(i + 1), known: map[int64]loaded{}}
	}
	watch := s.session(100)
	for range stressRounds {
		over := make(chan struct{})
		var playing, watching sync.WaitGroup
		watching.Go(func() { watch.watch(over) })
		for i, step := range players {
			playing.Go(func() {
				for range stressSteps {
					step(crew[i])
				}
			})
		}
		playing.Wait()
		close(over)
		watching.Wait()
		s.sound()
		if t.Failed() {
			return
		}
	}
	s.finish(stressLanes*5 + int(events.Load()))
}

// finish releases what is held and runs everything.
func (s *stage) finish(events int) {
	s.t.Helper()
	s.exec(`select inboxd.change(lane_id, 'retry', null, null, 'operator', null) from inboxd.lanes where state in ('stuck', 'backoff')`)
	s.run(sqlRegistry(s.t, "Paid"), quick())
	if n := one[int](s, `select count(*) from inboxd.events where processed_at is not null`); n != events {
		s.t.Errorf("%d events are done, want %d", n, events)
	}
	s.sound()
}

const neverSQL = `
select coalesce(string_agg(format('%s: %s, cursor %s of %s, pending %s, parked %s',
	a.aggregate_id, l.state, l.cursor, a.last_position, a.pending, a.parked), '; '), '')
from inboxd.aggregates a join inboxd.lanes l using (lane_id)
where l.state = 'ready' and a.parked or a.last_position > l.cursor and not a.pending`

// watch looks, in one snapshot after the other, for what must never be seen.
func (c *session) watch(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		default:
		}
		var seen string
		if err := c.conn.QueryRow(context.Background(), neverSQL).Scan(&seen); err != nil || seen != "" {
			c.t.Errorf("seen meanwhile: %s %v", seen, err)
			return
		}
	}
}

// player is a session that takes random steps. It remembers lanes as it read
// them, as a processor does.
type player struct {
	*session
	known map[int64]loaded
}

func (p *player) lane() int64 { return 1 + rand.Int64N(stressLanes) }

func (p *player) someLanes() []int64 {
	lanes := []int64{p.lane()}
	for rand.IntN(2) == 0 {
		lanes = append(lanes, p.lane())
	}
	return lanes
}

func (p *player) process() {
	lane := p.lane()
	l, ok := p.known[lane]
	if !ok || rand.IntN(3) > 0 {
		l = p.session.load(lane)
		p.known[lane] = l
	}
	if l.runnable && l.events > 0 {
		p.run(l)
	}
	if rand.IntN(5) > 0 {
		p.settle(lane)
	}
}

// run runs a lane, carefully if a process died in it.
func (p *player) run(l loaded) {
	if !l.traced && l.crashes == 0 {
		if l.parked || rand.IntN(2) == 0 {
			p.turn(l)
		} else {
			p.queued(l)
		}
		return
	}
	if l, counted := p.beginCareful(l); counted && !p.turn(l) {
		if err := p.takeBack(l); err != nil {
			p.t.Error(err)
		}
	}
}

// queued runs an event of a lane whose cursor moves first.
func (p *player) queued(l loaded) {
	p.begin()
	if err := p.take(l); err != nil {
		moved(p.t, err)
		p.rollback()
		return
	}
	if err := p.work(l); err != nil {
		p.t.Errorf("a taken lane: %v", err)
	}
	switch n := rand.IntN(10); {
	case n < 8:
		p.commit()
	case n < 9:
		p.die()
	default:
		p.rollback()
	}
}

// turn runs a lane as far as chance has it. False: it came to nothing.
func (p *player) turn(l loaded) bool {
	p.begin()
	if err := p.claim(l); err != nil {
		moved(p.t, err)
		p.rollback()
		return false
	}
	var err error
	switch n := rand.IntN(21); {
	case n < 10:
		err = p.advance(l, 1+rand.Int64N(int64(l.events)))
	case n < 15:
		err = p.fail(l, in(time.Duration(rand.IntN(3000))*time.Microsecond))
	case n < 17:
		err = p.fail(l, nil)
	case n < 18:
		err = p.try(`select inboxd.skip($1, $2, $3, 'handler', 'of no use')`, p.id, l.lane, l.cursor)
	case n < 19:
		p.die()
		return true
	default:
		p.rollback()
		return false
	}
	if err != nil {
		p.t.Errorf("a claimed lane: %v", err)
		p.rollback()
		return false
	}
	p.commit()
	return true
}

// die ends the session in the middle of a turn; another process takes its place.
func (p *player) die() {
	must(p.t, p.conn.PgConn().Conn().Close())
	*p = player{session: p.s.session(p.id + 1000), known: map[int64]loaded{}}
}

func (p *player) store(count *atomic.Int64) {
	n := count.Add(1)
	if err := p.storeOne(fmt.Sprint("e", n), fmt.Sprint("agg-", p.lane()-1)); err != nil {
		p.t.Error(err)
	}
}

func (p *player) operate() {
	if _, err := operatorRetry(p.conn, fmt.Sprint("agg-", p.lane()-1)); err != nil {
		p.t.Error(err)
	}
}
