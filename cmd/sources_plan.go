package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/config"
)

// resetTarget is a flag: where a group is to read on.
type resetTarget struct {
	text   string
	offset int64 // if it is one
	moment momentFlag
}

func (t *resetTarget) String() string { return t.text }
func (t *resetTarget) Type() string   { return "WHERE" }

// Set makes it a flag's value.
func (t *resetTarget) Set(s string) error {
	t.offset = -1
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n >= 0 {
		t.offset = n
	} else if s != "oldest" && s != "newest" && t.moment.Set(s) != nil {
		return errors.New("it must be oldest, newest, an offset, a time such as 2026-01-31T12:00:00Z, or how long ago, such as 24h")
	}
	t.text = s
	return nil
}

// offsetMove is what a reset does to one partition. Its JSON is stable. What is
// counted are offsets; a topic that is compacted, or has transactions, has fewer
// records.
type offsetMove struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// From is where the group is; nil: it has not begun.
	From *int64 `json:"from"`
	To   int64  `json:"to"`
	// Again is how many records are read again, PassedOver how many are never
	// read, Gone how many the log no longer has.
	Again      int64 `json:"again"`
	PassedOver int64 `json:"passed_over"`
	Gone       int64 `json:"gone"`
	// BeyondWindow is how many of Again the inbox may no longer remember.
	BeyondWindow int64 `json:"beyond_window"`
}

var moveColumns = []column[offsetMove]{
	{head: "topic", cell: func(m offsetMove) any { return m.Topic }},
	{head: "part", cell: func(m offsetMove) any { return m.Partition }},
	{head: "from", cell: func(m offsetMove) any { return m.From }},
	{head: "to", cell: func(m offsetMove) any { return m.To }},
	{head: "again", cell: func(m offsetMove) any { return m.Again }},
	{head: "passed over", cell: func(m offsetMove) any { return m.PassedOver }},
	{head: "gone", cell: func(m offsetMove) any { return m.Gone }},
	{head: "beyond window", cell: func(m offsetMove) any { return m.BeyondWindow }},
}

// reset is a move of offsets, as it was planned.
type reset struct {
	flags      resetFlags
	config     *config.Config
	group      *kafka.Group
	members    []string
	partitions []kafka.PartitionOffsets // of moves
	moves      []offsetMove
	window     admin.DedupWindow

	again, passed, gone, beyond int64 // over all moves
}

// planReset asks broker and database. Whoever got a reset closes its group.
func (a *app) planReset(ctx context.Context, db *database, f resetFlags) (*reset, error) {
	r := &reset{flags: f, config: db.config}
	var err error
	if r.window, err = admin.New(db.pool, db.schema).DedupWindow(ctx); err != nil {
		return nil, err
	}
	topics := db.config.Kafka.Topics
	if f.topic != "" {
		topics = []string{f.topic}
	}
	if r.group, err = a.openGroup(db.config, topics); err != nil {
		return nil, err
	}
	if err := r.plan(ctx); err != nil {
		r.group.Close()
		return nil, err
	}
	return r, nil
}

func (r *reset) plan(ctx context.Context) error {
	var err error
	if r.members, err = r.group.Members(ctx); err != nil {
		return brokerFailure(ctx, r.config, err)
	}
	all, err := r.group.Partitions(ctx)
	if err != nil {
		return brokerFailure(ctx, r.config, err)
	}
	chosen, err := r.choose(all)
	if err != nil {
		return err
	}
	to, err := r.resolve(ctx, chosen)
	if err != nil {
		return err
	}
	remembered, err := r.remembered(ctx, chosen)
	if err != nil {
		return brokerFailure(ctx, r.config, err)
	}
	for i, p := range chosen {
		if p.Committed == to[i] && !p.Stopped {
			continue
		}
		m := moveOf(p, to[i], remembered[i])
		r.partitions, r.moves = append(r.partitions, p), append(r.moves, m)
		r.again, r.passed, r.gone, r.beyond = r.again+m.Again, r.passed+m.PassedOver, r.gone+m.Gone, r.beyond+m.BeyondWindow
	}
	return nil
}

// choose takes the partitions that are meant.
func (r *reset) choose(all []kafka.PartitionOffsets) ([]kafka.PartitionOffsets, error) {
	if len(all) == 0 && r.flags.topic != "" {
		return nil, notFound("the topic %q does not exist, or its partitions have no leader", r.flags.topic)
	}
	if len(r.flags.partitions) == 0 {
		return all, nil
	}
	var chosen []kafka.PartitionOffsets
	for _, n := range slices.Compact(slices.Sorted(slices.Values(r.flags.partitions))) {
		i := slices.IndexFunc(all, func(p kafka.PartitionOffsets) bool { return p.Partition == n })
		if i < 0 {
			return nil, notFound("the topic %q has no partition %d, or it has no leader", r.flags.topic, n)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// resolve finds the offsets that are meant.
func (r *reset) resolve(ctx context.Context, chosen []kafka.PartitionOffsets) ([]int64, error) {
	t := r.flags.to
	if t.text != "oldest" && t.text != "newest" && t.offset < 0 {
		at, err := r.group.At(ctx, chosen, t.moment.at)
		return at, brokerFailure(ctx, r.config, err)
	}
	to := make([]int64, len(chosen))
	for i, p := range chosen {
		switch t.text {
		case "oldest":
			to[i] = p.Oldest
		case "newest":
			to[i] = p.Newest
		default:
			if to[i] = t.offset; t.offset < p.Oldest || t.offset > p.Newest {
				return nil, refused("partition %d holds the offsets %d up to %d, so that it cannot be read from %d; nothing was changed",
					p.Partition, p.Oldest, p.Newest, t.offset)
			}
		}
	}
	return to, nil
}

// remembered is, for each partition, the first offset from which on the inbox
// remembers all: what was written after the oldest event that is kept was stored.
func (r *reset) remembered(ctx context.Context, chosen []kafka.PartitionOffsets) ([]int64, error) {
	if r.window.Whole {
		return make([]int64, len(chosen)), nil
	}
	return r.group.At(ctx, chosen, r.window.Since)
}

func moveOf(p kafka.PartitionOffsets, to, remembered int64) offsetMove {
	m := offsetMove{Topic: p.Topic, Partition: p.Partition, To: to}
	from := p.Oldest // where it would begin, if it has not
	if p.Committed >= 0 {
		m.From, from = &p.Committed, p.Committed
		m.Gone = max(0, p.Oldest-from)
	}
	m.Again = max(0, min(from, p.Newest)-to)
	m.PassedOver = max(0, to-max(from, p.Oldest))
	m.BeyondWindow = max(0, min(from, p.Newest, remembered)-to)
	return m
}

// sentences say what the move means.
func (r *reset) sentences() (s []string) {
	if r.again > 0 {
		window := "the inbox remembers the ids of all events that were ever stored, so that they are duplicates and change nothing"
		if !r.window.Whole {
			window = fmt.Sprintf("the inbox remembers the ids of all events stored since %s (retention.processed is %s)",
				r.window.Since.Format("2006-01-02T15:04:05Z"), r.config.Retention.Processed)
		}
		s = append(s, fmt.Sprintf("up to %s are read again; %s", count(r.again, "record"), window))
	}
	if r.passed > 0 {
		s = append(s, fmt.Sprintf("up to %s are passed over and never stored", count(r.passed, "record")))
	}
	if r.gone > 0 {
		s = append(s, fmt.Sprintf("up to %s were never read and are no longer in the log", count(r.gone, "record")))
	}
	return s
}
