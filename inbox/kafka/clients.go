package kafka

import (
	"errors"
	"fmt"

	"github.com/IBM/sarama"
)

// errPasswordChanged ends a session whose clients know an old password.
var errPasswordChanged = errors.New("the password has changed")

// clients are a source's connections to the cluster.
type clients struct {
	control     *control
	groupClient sarama.Client
	group       sarama.ConsumerGroup
	password    string // of SASL's PLAIN; they have one for as long as they live
}

// connect makes the two clients. They connect when they are first used.
func (s *Source) connect() (clients, error) {
	password, err := s.plainPassword()
	if err != nil {
		return clients{}, err
	}
	own, err := sarama.NewClient(s.cfg.Brokers, s.controlConfig(password))
	if err != nil {
		return clients{}, fmt.Errorf("configure the client: %w", err)
	}
	groupClient, err := sarama.NewClient(s.cfg.Brokers, s.clientConfig(password))
	if err != nil {
		return clients{}, errors.Join(fmt.Errorf("configure the client: %w", err), own.Close())
	}
	group, err := sarama.NewConsumerGroupFromClient(s.cfg.Group, patientClient{groupClient})
	if err != nil {
		return clients{}, errors.Join(fmt.Errorf("configure the consumer group: %w", err), groupClient.Close(), own.Close())
	}
	return clients{
		control:     &control{client: own, group: s.cfg.Group, instance: s.cfg.InstanceID, brokers: s.cfg.Brokers},
		groupClient: groupClient, group: group, password: password,
	}, nil
}

// close leaves the group, after the session has ended, and closes the clients.
func (c *clients) close() {
	_ = c.group.Close()
	_ = c.groupClient.Close()
	_ = c.control.client.Close()
}

// plainPassword is the password of PLAIN as it is now; empty for the other
// mechanisms, which ask for theirs at each connection.
func (s *Source) plainPassword() (string, error) {
	if s.cfg.SASL == nil || s.cfg.SASL.Mechanism != Plain {
		return "", nil
	}
	return s.cfg.SASL.password()
}

// passwordChanged reports whether the clients know an old password of PLAIN.
// Their connections outlive a change; those that they make after it would not.
func (s *Source) passwordChanged() bool {
	password, err := s.plainPassword()
	if err != nil {
		s.trouble("password", "The password cannot be read. It is tried again; what is connected stays so.", err)
		return false
	}
	s.better("password", "The password can be read again.")
	return password != s.password
}

// renew replaces the clients if they know an old password. No session is running.
func (s *Source) renew() {
	if !s.passwordChanged() {
		return
	}
	fresh, err := s.connect()
	if err != nil {
		s.trouble("password", "The clients could not be made anew with the new password. It is tried again.", err)
		return
	}
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		fresh.close()
		return
	}
	old := s.clients
	s.clients = fresh
	s.mu.Unlock()
	s.running.Go(func() { s.readErrors(fresh.group) })
	old.close()
}

// warnOfSASLInTheClear says it once that passwords go over the network unencrypted.
func (s *Source) warnOfSASLInTheClear() {
	if s.cfg.SASL != nil && s.cfg.TLS == nil {
		s.log.Warn("SASL is used without TLS: others on the network can read or misuse what proves who this process is. Set kafka.tls if the broker can.",
			"mechanism", s.cfg.SASL.Mechanism)
	}
}
