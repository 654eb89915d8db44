package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/inbox/kafka"
)

// noteSourcesSQL writes all partitions in one statement; see note_sources() in
// the migrations for its locks.
const noteSourcesSQL = `select {schema}.note_sources($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

const (
	// noteEvery is the least time between two looks at the source.
	noteEvery = 2 * time.Second
	// noteAnyway is how often its rows are written although nothing has changed:
	// they say when it was last heard of.
	noteAnyway = 10 * time.Second
	noteLimit  = 5 * time.Second // of one statement
)

// sourceNotes writes into the database, for people, how far the source is.
type sourceNotes struct {
	pool    *pgxpool.Pool
	sql     string
	group   string
	process string
	stats   func() kafka.Stats
	log     *slog.Logger

	mu     sync.Mutex
	counts map[inbox.Partition]inbox.Counts // since they were last written

	// Of the goroutine that writes.
	written   map[inbox.Partition]kafka.PartitionStats
	missing   string
	member    string
	writtenAt time.Time
	failing   bool
}

func (s *Service) newSourceNotes(pool *pgxpool.Pool) *sourceNotes {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return &sourceNotes{
		pool: pool, group: s.cfg.Kafka.Group, stats: s.source.Stats, log: s.log,
		sql:     strings.ReplaceAll(noteSourcesSQL, "{schema}", pgx.Identifier{s.cfg.Database.Schema}.Sanitize()),
		process: fmt.Sprintf("%s/%d", host, os.Getpid()),
		counts:  map[inbox.Partition]inbox.Counts{},
	}
}

// count adds to what is to be written. It is what an Ingester's Observe wants.
func (n *sourceNotes) count(p inbox.Partition, c inbox.Counts) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[p] = n.counts[p].Plus(c)
}

// run writes from time to time until ctx ends, and then once more.
func (n *sourceNotes) run(ctx context.Context) {
	ticker := time.NewTicker(noteEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			n.write(ctx)
		case <-ctx.Done():
			n.write(context.WithoutCancel(ctx))
			return
		}
	}
}

// write writes what has changed. What could not be written is tried again with
// the next; that it cannot is for the log once, since storing says so louder.
func (n *sourceNotes) write(ctx context.Context) {
	st := n.stats()
	counts := n.takeCounts()
	rows := newSourceRows(st, counts)
	missing := fmt.Sprint(st.Missing)
	if len(rows.topics) == 0 && len(st.Missing) == 0 {
		return
	}
	if len(counts) == 0 && missing == n.missing && st.Member == n.member && !n.changed(st) && time.Since(n.writtenAt) < noteAnyway {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	if _, err := n.pool.Exec(ctx, n.sql, rows.args(n.group, st.Member, n.process)...); err != nil {
		n.returnCounts(counts)
		if !n.failing && ctx.Err() == nil {
			n.log.Warn("how far ingest is could not be written for inboxd sources list; it is tried again", "error", err)
		}
		n.failing = true
		return
	}
	n.failing, n.missing, n.member, n.writtenAt = false, missing, st.Member, time.Now()
	n.written = make(map[inbox.Partition]kafka.PartitionStats, len(st.Partitions))
	for _, p := range st.Partitions {
		n.written[partitionOf(p)] = noted(p)
	}
}

func (n *sourceNotes) takeCounts() map[inbox.Partition]inbox.Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.counts
	n.counts = map[inbox.Partition]inbox.Counts{}
	return taken
}

func (n *sourceNotes) returnCounts(counts map[inbox.Partition]inbox.Counts) {
	for p, c := range counts {
		n.count(p, c)
	}
}

// changed reports whether a partition is not as it was written.
func (n *sourceNotes) changed(st kafka.Stats) bool {
	if len(st.Partitions) != len(n.written) {
		return true
	}
	for _, p := range st.Partitions {
		if n.written[partitionOf(p)] != noted(p) {
			return true
		}
	}
	return false
}

// noted is what of a partition's stats is written.
func noted(p kafka.PartitionStats) kafka.PartitionStats {
	p.Buffered, p.BufferedBytes = 0, 0
	return p
}

func partitionOf(p kafka.PartitionStats) inbox.Partition {
	return inbox.Partition{Topic: p.Topic, Number: p.Partition}
}
