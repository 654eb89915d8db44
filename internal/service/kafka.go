package service

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/config"
)

// KafkaConfig is how the source is configured. Its time-outs and its log are left
// to the caller.
func KafkaConfig(c *config.Config, log *slog.Logger) (kafka.Config, error) {
	k := c.Kafka
	start, err := kafka.ParseStart(k.Start)
	if err != nil {
		return kafka.Config{}, fmt.Errorf("kafka: %w", err)
	}
	out := kafka.Config{
		Brokers: k.Brokers, Group: k.Group, Topics: k.Topics, Start: start,
		TopicRefresh: k.TopicRefresh, InstanceID: k.InstanceID, BufferBytes: int(k.MaxBytes), Log: log,
	}
	if k.TLS.Enabled {
		out.TLS = &kafka.TLS{
			CAFile: k.TLS.CAFile, CertFile: k.TLS.CertFile, KeyFile: k.TLS.KeyFile, ServerName: k.TLS.ServerName,
		}
	}
	if k.SASL.Mechanism != "" {
		out.SASL = &kafka.SASL{
			Mechanism: k.SASL.Mechanism, User: k.SASL.User, TokenFile: k.SASL.TokenFile,
			Password: k.SASL.Password, PasswordFile: k.SASL.PasswordFile,
		}
	}
	return out, nil
}

// kafka makes the source.
func (s *Service) kafka(o Options) (*kafka.Source, error) {
	c, err := KafkaConfig(s.cfg, s.log)
	if err != nil {
		return nil, err
	}
	c.StopTimeout = max(time.Second, min(s.cfg.Lanes.Drain, 10*time.Second))
	c.CommitInterval = o.Commit
	c.Remembered = remembered(o.Pool, s.cfg.Database.Schema, c.Group)
	return kafka.New(c, s.Ingester)
}
