//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"
)

// effect is a row that a handler wrote.
type effect struct {
	seq, position, n, prev, amount, txid int64
	id, aggregate, worker                string
	at                                   time.Time
}

// stored is what inboxd says of an event.
type stored struct {
	aggregate          string
	position           int64
	received, occurred time.Time
	processed, skipped *time.Time
	attempts           int
}

// facts are what the run left, read once.
type facts struct {
	effects  []effect // by aggregate, then by number of the transaction's row
	byID     map[string][]int
	inbox    map[string]stored
	poison   map[place]int  // where the broker has poison
	refused  map[place]int  // where quarantine says that it had it
	inLog    []bool         // by the event's index: the broker has it
	misfiled map[int32]bool // aggregates whose events the broker has in another order
}

// place is where a record stands.
type place struct {
	topic     string
	partition int32
	offset    int64
}

func (w *world) readFacts(ctx context.Context) (*facts, error) {
	f := &facts{
		byID: map[string][]int{}, inbox: map[string]stored{}, poison: map[place]int{}, refused: map[place]int{},
		inLog: make([]bool, len(w.stream.events)), misfiled: map[int32]bool{},
	}
	if err := f.readEffects(ctx, w); err != nil {
		return nil, fmt.Errorf("read the effects: %w", err)
	}
	for _, family := range w.families() {
		if err := f.readInbox(ctx, w, family); err != nil {
			return nil, fmt.Errorf("read the events of %s: %w", family.name, err)
		}
		if err := f.readQuarantine(ctx, w, family); err != nil {
			return nil, fmt.Errorf("read the quarantine of %s: %w", family.name, err)
		}
	}
	if err := f.readLog(ctx, w); err != nil {
		return nil, fmt.Errorf("read the topics: %w", err)
	}
	return f, nil
}

func (f *facts) readEffects(ctx context.Context, w *world) error {
	rows, err := w.pool.Query(ctx, `select seq, event_id, aggregate_id, position, n, prev_n, amount, at, txid, worker
		from effects order by aggregate_id, seq`)
	if err != nil {
		return err
	}
	var e effect
	_, err = pgx.ForEachRow(rows, []any{&e.seq, &e.id, &e.aggregate, &e.position, &e.n, &e.prev, &e.amount, &e.at, &e.txid, &e.worker}, func() error {
		f.byID[e.id] = append(f.byID[e.id], len(f.effects))
		f.effects = append(f.effects, e)
		return nil
	})
	return err
}

func (f *facts) readInbox(ctx context.Context, w *world, family *family) error {
	rows, err := w.pool.Query(ctx, family.in(`select event_id, aggregate_id, position, received_at, occurred_at,
		processed_at, skipped_at, attempts from {schema}.events`))
	if err != nil {
		return err
	}
	var id string
	var s stored
	_, err = pgx.ForEachRow(rows, []any{&id, &s.aggregate, &s.position, &s.received, &s.occurred, &s.processed, &s.skipped, &s.attempts}, func() error {
		if _, twice := f.inbox[id]; twice {
			w.findings.addFor(s.aggregate, "stored twice", "event %s", id)
		}
		f.inbox[id] = s
		return nil
	})
	return err
}

func (f *facts) readQuarantine(ctx context.Context, w *world, family *family) error {
	rows, err := w.pool.Query(ctx, family.in(`select source_topic, source_partition, source_offset from {schema}.quarantine`))
	if err != nil {
		return err
	}
	var p place
	_, err = pgx.ForEachRow(rows, []any{&p.topic, &p.partition, &p.offset}, func() error {
		f.refused[p]++
		return nil
	})
	return err
}

// readLog reads all that the broker holds: what it lost is not inboxd's fault,
// and the order of its records is the one that counts.
func (f *facts) readLog(ctx context.Context, w *world) error {
	from := map[string]map[int32]kgo.Offset{}
	left := 0
	for topic, partitions := range w.ends {
		from[topic] = map[int32]kgo.Offset{}
		for partition := range partitions {
			from[topic][partition] = kgo.NewOffset().AtStart()
			left++
		}
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.ConsumePartitions(from))
	if err != nil {
		return err
	}
	defer client.Close()
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	last := make([]int32, len(w.stream.aggregates))
	for left > 0 {
		fetches := client.PollFetches(limited)
		if err := limited.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			f.noteRecord(w.stream, r, last)
			if r.Offset == w.ends[r.Topic][r.Partition]-1 {
				left--
			}
		})
	}
	return nil
}

func (f *facts) noteRecord(s *stream, r *kgo.Record, last []int32) {
	id := ""
	for _, h := range r.Headers {
		switch h.Key {
		case poisonMark:
			f.poison[place{r.Topic, r.Partition, r.Offset}] = 1
			return
		case "id":
			id = string(h.Value)
		}
	}
	if id == "" {
		id = idInside(r.Value)
	}
	i := s.indexOf(id)
	if i < 0 || f.inLog[i] {
		return // ignored, or a duplicate
	}
	m := &s.events[i]
	if r.Partition != s.aggregates[m.aggregate].home {
		return // a duplicate, from elsewhere
	}
	f.inLog[i] = true
	if m.n != last[m.aggregate]+1 {
		f.misfiled[m.aggregate] = true
	}
	last[m.aggregate] = m.n
}
