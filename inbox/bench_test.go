package inbox_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/inbox"
)

// copiedTable has the shape and the indexes of a segment of inbox.
const copiedTable = `create table copied (like inboxd.inbox including defaults including constraints including indexes)`

var copiedColumns = []string{"lane_id", "position", "received_at", "occurred_at", "sequence", "source_offset",
	"source_partition", "segment", "event_id", "aggregate_id", "event_type", "source_topic", "headers", "payload"}

// feed is what a partition of a topic delivers: ids without an order, as UUIDs
// are, and aggregates that take turns.
func feed(round, n, aggregates int) []inbox.Event {
	all := make([]inbox.Event, n)
	for i := range all {
		id := uint64(round*n+i+1) * 0x9e3779b97f4a7c15
		all[i] = inbox.Event{
			ID:          fmt.Sprintf("%016x-%016x", id, id*0xbf58476d1ce4e5b9),
			AggregateID: fmt.Sprintf("account-%d", (i*7)%aggregates),
			Type:        "AmountDebited",
			Payload:     fmt.Appendf(nil, `{"amount":%d,"currency":"EUR","note":"payment"}`, i),
			Source:      inbox.Source{Topic: "payments", Partition: 3, Offset: int64(round*n + i)},
		}
	}
	return all
}

// copier gives rows of inbox to COPY as store() would write them.
type copier struct {
	lanes map[string]int64
	last  map[string]int64
}

func (c *copier) rows(all []inbox.Event, at time.Time) [][]any {
	out := make([][]any, len(all))
	for i := range all {
		e := &all[i]
		lane, ok := c.lanes[e.AggregateID]
		if !ok {
			lane = int64(len(c.lanes) + 1)
			c.lanes[e.AggregateID] = lane
		}
		c.last[e.AggregateID]++
		out[i] = []any{lane, c.last[e.AggregateID], at, at, nil, e.Source.Offset,
			e.Source.Partition, 1, e.ID, e.AggregateID, e.Type, e.Source.Topic, nil, e.Payload}
	}
	return out
}

const benchRows = 12_000 // a round

// copyTime is the time of one COPY of the rows, and putTime that of Put of the
// same events, in batches, by some sessions at once.
func (s *stage) copyTime(c *copier, all []inbox.Event) time.Duration {
	s.t.Helper()
	rows := c.rows(all, time.Now())
	started := time.Now()
	_, err := s.pool.CopyFrom(s.t.Context(), pgx.Identifier{"copied"}, copiedColumns, pgx.CopyFromRows(rows))
	must(s.t, err)
	return time.Since(started)
}

func (s *stage) putTime(all []inbox.Event, batch, sessions int) time.Duration {
	// As with the partitions of a topic, an aggregate's events are in one session.
	parts := make([][]inbox.Event, sessions)
	for i, e := range all {
		parts[i%sessions] = append(parts[i%sessions], e)
	}
	started := time.Now()
	var wg sync.WaitGroup
	for _, part := range parts {
		wg.Go(func() {
			for events := range slices.Chunk(part, batch) {
				if _, err := s.store.Put(s.t.Context(), events); err != nil {
					s.t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(started)
}

// BenchmarkPut compares storing batches of small events with one COPY of the
// same rows into a table like inbox, with its indexes: medians of rounds.
func BenchmarkPut(b *testing.B) {
	for _, shape := range []struct{ aggregates, batch, sessions int }{
		{1, 1000, 1}, {100, 1000, 1}, {1000, 1000, 1}, {1000, 4000, 1}, {1000, 1000, 2}, {100_000, 1000, 1},
	} {
		b.Run(fmt.Sprintf("aggregates=%d/batch=%d/sessions=%d", shape.aggregates, shape.batch, shape.sessions), func(b *testing.B) {
			s := setup(b)
			s.exec(copiedTable)
			c := &copier{lanes: map[string]int64{}, last: map[string]int64{}}
			var copied, put []time.Duration
			for b.Loop() {
				all := feed(len(put), benchRows, shape.aggregates)
				copied = append(copied, s.copyTime(c, all))
				put = append(put, s.putTime(all, shape.batch, shape.sessions))
			}
			slices.Sort(copied)
			slices.Sort(put)
			byCopy, byPut := copied[len(copied)/2], put[len(put)/2]
			b.ReportMetric(benchRows/byCopy.Seconds(), "copy/s")
			b.ReportMetric(benchRows/byPut.Seconds(), "put/s")
			b.ReportMetric(byCopy.Seconds()/byPut.Seconds(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
