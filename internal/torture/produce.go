//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/broker"
)

// The producer sends a chunk every few milliseconds and catches up after the
// broker was away, by larger ones.
const (
	chunkEvery = 40 * time.Millisecond
	chunkLimit = 1000
)

// produce makes records and sends them until limited ends; what was begun is
// sent to the end unless ctx ends.
func (w *world) produce(ctx, limited context.Context) error {
	producer, err := broker.NewProducer(w.addr)
	if err != nil {
		return err
	}
	defer producer.Close()
	began, sent := time.Now(), 0
	for sleep(limited, chunkEvery) {
		due := int(time.Since(began).Seconds()*float64(w.opts.rate)) - sent
		if due <= 0 {
			continue
		}
		drafts := w.draft(min(due, chunkLimit))
		sent += len(drafts)
		if err := w.send(ctx, producer, drafts); err != nil {
			return err
		}
	}
	return nil
}

// draft makes records. The stream is shared with the watcher.
func (w *world) draft(count int) []draft {
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	drafts := make([]draft, count)
	for i := range drafts {
		drafts[i] = w.stream.next()
	}
	return drafts
}

// send sends a chunk and takes note of it. A chunk that failed is sent again:
// what had arrived of it is there twice then.
func (w *world) send(ctx context.Context, producer *broker.Producer, drafts []draft) error {
	records := make([]*inbox.Record, len(drafts))
	for try := 0; ; try++ {
		for i := range drafts {
			r := *drafts[i].record
			records[i] = &r
		}
		err := producer.Produce(ctx, records...)
		if err == nil {
			w.ends.note(records)
			break
		}
		if ctx.Err() != nil || try == 20 {
			return fmt.Errorf("the broker takes no records: %w", err)
		}
		sleep(ctx, 200*time.Millisecond)
	}
	w.watcher.mu.Lock()
	defer w.watcher.mu.Unlock()
	n := &w.numbers
	for i, d := range drafts {
		switch d.sort {
		case fresh:
			m := &w.stream.events[d.index]
			m.sent = true
			w.stream.aggregates[m.aggregate].home = records[i].Source.Partition
			n.produced++
			if m.kind == fragile1 {
				n.fragile++
				w.fixes.later(w.stream.id(d.index), time.Now().Add(m.repairAfter()))
			}
			if m.final() {
				n.final++
			}
		case repeated:
			n.duplicates++
		case altered:
			n.conflicts++
		case poisoned:
			n.poison++
		case ignored:
			n.ignored++
		}
	}
	return nil
}

// ends are where the topics end, as far as the producer knows.
type ends map[string]map[int32]int64

func (e ends) note(records []*inbox.Record) {
	for _, r := range records {
		s := r.Source
		if e[s.Topic] == nil {
			e[s.Topic] = map[int32]int64{}
		}
		e[s.Topic][s.Partition] = max(e[s.Topic][s.Partition], s.Offset+1)
	}
}
