package kafka

import (
	"fmt"

	"github.com/xdg-go/scram"
)

// scramClient is one SCRAM conversation, as the client library wants it.
type scramClient struct {
	sasl *SASL
	conv *scram.ClientConversation
}

// Begin implements the library's interface. The password that it is given is of
// the time when the library was configured; it uses the one of now.
func (c *scramClient) Begin(user, _, authzID string) error {
	password, err := c.sasl.password()
	if err != nil {
		return err
	}
	hash := scram.SHA256
	if c.sasl.Mechanism == ScramSHA512 {
		hash = scram.SHA512
	}
	client, err := hash.NewClient(user, password, authzID)
	if err != nil {
		return fmt.Errorf("prepare %s: %w", c.sasl, err)
	}
	c.conv = client.NewConversation()
	return nil
}

// Step implements the library's interface.
func (c *scramClient) Step(challenge string) (string, error) { return c.conv.Step(challenge) }

// Done implements the library's interface.
func (c *scramClient) Done() bool { return c.conv.Done() }
