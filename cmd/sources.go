package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/service"
)

func newSourcesCmd(a *app) *cobra.Command {
	return noun("sources", "See how far ingest is, and move it", newSourcesListCmd(a), newSourcesResetCmd(a))
}

// brokerLimit is how long the broker may take to answer an operator.
const brokerLimit = 15 * time.Second

// openGroup looks at the configured consumer group and at topics. Whoever got one
// closes it.
func (a *app) openGroup(c *config.Config, topics []string) (*kafka.Group, error) {
	k, err := service.KafkaConfig(c, a.log)
	k.Topics = topics
	var group *kafka.Group
	if err == nil {
		group, err = kafka.OpenGroup(k)
	}
	if err != nil {
		return nil, wrongUse("%w", err)
	}
	return group, nil
}

// brokerFailure gives an error of the broker its exit code.
func brokerFailure(ctx context.Context, c *config.Config, err error) error {
	if err == nil || ctx.Err() != nil { // who interrupted it knows
		return err
	}
	return unreachable("the broker cannot be used: %w", err).
		withHint("check that Kafka runs at %v and that kafka.brokers, kafka.tls and kafka.sasl are right: inboxd config print shows them", c.Kafka.Brokers)
}
