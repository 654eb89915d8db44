package kafka_test

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// seat is a place that members take one after the other.
type seat struct {
	*consumer      // the last member; nil: there was none
	taken     bool // it is still there
	crashed   bool
}

// free reports whether a member may take the seat.
func (s *seat) free() bool {
	if s.taken || s.consumer == nil {
		return !s.taken
	}
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// Every second a member joins or leaves, some as if they were killed, while
// records are written. Members in odd seats are static ones.
func testChurn(b *bench) {
	topic := b.topic("t", 6)
	sink := newMemory() // one for all
	load := b.load(topic, 6)
	var seats [5]seat
	join := func(i int) {
		cfg := b.config(topic)
		cfg.SessionTimeout = shortSession
		if i%2 == 1 {
			cfg.InstanceID = fmt.Sprintf("seat-%d", i)
		}
		seats[i] = seat{consumer: b.start(cfg, sink), taken: true}
	}
	join(0)
	random := rand.New(rand.NewPCG(6, 2026))
	second := time.NewTicker(time.Second)
	defer second.Stop()
	joined, left, crashed := 1, 0, 0
	for range int(b.world.churn / time.Second) {
		<-second.C
		i := random.IntN(len(seats))
		switch s := &seats[i]; {
		case s.free():
			join(i)
			joined++
		case s.taken && random.IntN(3) == 0:
			s.taken, s.crashed = false, true
			s.Crash()
			s.cancel()
			crashed++
		case s.taken:
			s.taken = false
			s.cancel() // the next one need not wait for it
			left++
		}
	}
	b.Logf("%d records were stored while %d members joined, %d left and %d crashed", sink.total(), joined, left, crashed)
	if !seats[0].taken {
		join(0)
	}
	load.verify(sink, 6)
	b.awaitAllCommitted(topic, 6)
	for i := range seats {
		if seats[i].consumer != nil && !seats[i].crashed {
			seats[i].stop()
		}
	}
}
