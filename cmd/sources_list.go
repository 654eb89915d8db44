package cmd

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/config"
)

func newSourcesListCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the partitions of the consumer group: position, lag, outcomes, errors",
		Long: "List the partitions that the consumer group reads or has read: how far it is, how far behind that is, what\n" +
			"became of the records, and what went wrong last. Processes write it every few seconds; the broker is asked\n" +
			"for the ends of the partitions. Without the broker, the rest is listed.",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			db, err := a.openDatabase(cmd.Context())
			if err != nil {
				return err
			}
			defer db.close()
			return operationFailure(a.listSources(cmd.Context(), db))
		},
	}
	a.addOutputFlag(cmd)
	return cmd
}

func (a *app) listSources(ctx context.Context, db *database) error {
	rows, err := admin.New(db.pool, db.schema).Sources(ctx, db.config.Kafka.Group)
	if err != nil {
		return err
	}
	if len(db.config.Kafka.Topics) > 0 {
		known, err := a.askPartitions(ctx, db.config)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			a.say("the broker is out of reach, so that no lag is known: %v", err)
		default:
			rows = withOffsets(rows, db.config.Kafka.Group, known, time.Now())
		}
	}
	return listing[admin.SourcePartition]{rows: each(rows), columns: sourceColumns, noun: "partitions"}.write(a)
}

func (a *app) askPartitions(ctx context.Context, c *config.Config) ([]kafka.PartitionOffsets, error) {
	ctx, cancel := context.WithTimeout(ctx, brokerLimit)
	defer cancel()
	group, err := a.openGroup(c, c.Kafka.Topics)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	return group.Partitions(ctx)
}

// readerIsLate is how long the row of a process that lives may be unwritten.
const readerIsLate = 30 * time.Second

// withOffsets adds what the broker knows, and the partitions that only it knows.
func withOffsets(rows []admin.SourcePartition, group string, known []kafka.PartitionOffsets, now time.Time) []admin.SourcePartition {
	for _, k := range known {
		i := slices.IndexFunc(rows, func(r admin.SourcePartition) bool { return r.Topic == k.Topic && r.Partition == k.Partition })
		if i < 0 {
			i = len(rows)
			rows = append(rows, admin.SourcePartition{Group: group, Topic: k.Topic, Partition: k.Partition, State: "left"})
		}
		r := &rows[i]
		r.End, r.Committed = &k.End, nil
		if k.Committed >= 0 {
			r.Committed = &k.Committed
		}
		// What nobody reads now begins at what is committed, whoever did that.
		if r.Member == nil || r.SeenAt == nil || now.Sub(*r.SeenAt) > readerIsLate || r.Position == nil {
			r.Position = r.Committed
		}
		if r.Position != nil {
			lag := max(0, *r.End-*r.Position)
			r.Lag = &lag
		}
		if k.Stopped && r.State != "stopped" {
			r.State = "stopped"
		}
	}
	slices.SortFunc(rows, func(x, y admin.SourcePartition) int {
		return cmp.Or(cmp.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	return rows
}

var sourceColumns = []column[admin.SourcePartition]{
	{head: "topic", cell: func(p admin.SourcePartition) any { return p.Topic }},
	{head: "part", cell: func(p admin.SourcePartition) any { return p.Partition }},
	{head: "state", cell: func(p admin.SourcePartition) any { return p.State }},
	{head: "position", cell: func(p admin.SourcePartition) any { return p.Position }},
	{head: "lag", cell: func(p admin.SourcePartition) any { return p.Lag }},
	{head: "stored", cell: func(p admin.SourcePartition) any { return p.Stored }},
	{head: "dup", cell: func(p admin.SourcePartition) any { return p.Duplicates }},
	{head: "conf", cell: func(p admin.SourcePartition) any { return p.Conflicts }},
	{head: "quar", cell: func(p admin.SourcePartition) any { return p.Quarantined }},
	{head: "ign", cell: func(p admin.SourcePartition) any { return p.Ignored }},
	{head: "seen", cell: sourceAge},
	{head: "error", cell: sourceError, flex: true},
}

func sourceAge(p admin.SourcePartition) any {
	if p.SeenAt == nil {
		return nil
	}
	return admin.Age(time.Since(*p.SeenAt))
}

func sourceError(p admin.SourcePartition) any {
	if p.Error == nil {
		return nil
	}
	return firstLine(p.Error.Message)
}
