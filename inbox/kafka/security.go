package kafka

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"

	"github.com/IBM/sarama"
)

// TLS says how connections to the brokers are encrypted. Its files are read for
// each new connection, so that they can be replaced at any time.
type TLS struct {
	// CAFile holds, in PEM, the authorities that may have signed the broker's
	// certificate. Empty: those of the system.
	CAFile string
	// CertFile and KeyFile are this process's own certificate and its key, in
	// PEM, for brokers that ask for one. Empty: none.
	CertFile, KeyFile string
	// ServerName is the name that the broker's certificate must have. Empty: the
	// host that is connected to.
	ServerName string
}

// config reads the files. The answer is for connections to host.
func (t *TLS) config(host string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if t.ServerName != "" {
		c.ServerName = t.ServerName
	}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("the file of the certificate authorities cannot be read: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the file of the certificate authorities, %s, holds no certificate in PEM", t.CAFile)
		}
	}
	if t.CertFile != "" {
		own, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("the certificate in %s with the key in %s cannot be used: %w", t.CertFile, t.KeyFile, err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// SASL says who this process is, and how it proves it. Its files are read for
// each new connection, so that they can be replaced at any time; white space
// around what they hold does not count.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
	Mechanism string
	// User is who this process is, by PLAIN and SCRAM.
	User string
	// Password is the password of User. Empty: PasswordFile holds it.
	Password, PasswordFile string
	// TokenFile holds the token of OAUTHBEARER.
	TokenFile string
}

// The mechanisms of SASL that a Source can use.
const (
	Plain       = sarama.SASLTypePlaintext
	ScramSHA256 = sarama.SASLTypeSCRAMSHA256
	ScramSHA512 = sarama.SASLTypeSCRAMSHA512
	OAuthBearer = sarama.SASLTypeOAuth
)

// password is the password as it is now.
func (s *SASL) password() (string, error) {
	if s.Password != "" {
		return s.Password, nil
	}
	return secretIn(s.PasswordFile, "password")
}

// Token implements the client library's interface of a token provider.
func (s *SASL) Token() (*sarama.AccessToken, error) {
	token, err := secretIn(s.TokenFile, "token")
	if err != nil {
		return nil, err
	}
	return &sarama.AccessToken{Token: token}, nil
}

func secretIn(file, what string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("the file of the SASL %s cannot be read: %w", what, err)
	}
	secret := string(bytes.TrimSpace(content))
	if secret == "" {
		return "", fmt.Errorf("the file of the SASL %s, %s, is empty", what, file)
	}
	return secret, nil
}

// validateSecurity says in whole sentences what is wrong, files that cannot be
// read included.
func (c Config) validateSecurity() []error {
	var errs []error
	if c.TLS != nil {
		if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
			errs = append(errs, errors.New("A certificate needs its key, and a key its certificate."))
		} else if _, err := c.TLS.config(""); err != nil {
			errs = append(errs, err)
		}
	}
	if c.SASL == nil {
		return errs
	}
	err := error(nil)
	switch s := c.SASL; {
	case s.Mechanism == OAuthBearer:
		_, err = s.Token()
	case !slices.Contains([]string{Plain, ScramSHA256, ScramSHA512}, s.Mechanism):
		err = fmt.Errorf("The SASL mechanism %q is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.", s.Mechanism)
	case s.User == "":
		err = fmt.Errorf("SASL %s needs a user.", s.Mechanism)
	default:
		_, err = s.password()
	}
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

// authenticate has a client prove who it is. TLS is the dialer's: the client
// library would read its files once only.
//
// The password of PLAIN is a field of the library's configuration, which it reads
// for each connection and nobody may write any more; a client is good for one
// password. The others ask for their secret each time.
func (s *SASL) authenticate(c *sarama.Config, plainPassword string) {
	n := &c.Net.SASL
	n.Enable, n.Mechanism, n.Version = true, sarama.SASLMechanism(s.Mechanism), sarama.SASLHandshakeV1
	n.User, n.Password = s.User, plainPassword
	switch s.Mechanism {
	case OAuthBearer:
		n.TokenProvider = s
	case ScramSHA256, ScramSHA512:
		n.Password = "unused" // the library wants one; scramClient has its own
		n.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{sasl: s} }
	}
}

// explain is what to say before an error that is about who may connect: which
// side refused whom. It is empty for others.
func (s *Source) explain(err error) string {
	var unknownCA x509.UnknownAuthorityError
	var name x509.HostnameError
	var expired x509.CertificateInvalidError
	var remote *net.OpError
	switch sasl := s.cfg.SASL; {
	case errors.As(err, &unknownCA), errors.As(err, &name), errors.As(err, &expired):
		return "the broker's certificate is not accepted (TLS)"
	case errors.As(err, &remote) && remote.Op == "remote error":
		return "the broker refuses the connection (TLS), perhaps for want of a certificate that it knows"
	case sasl == nil:
		return ""
	case errors.Is(err, sarama.ErrSASLAuthenticationFailed):
		return fmt.Sprintf("the broker does not accept %s", sasl)
	case errors.Is(err, sarama.ErrUnsupportedSASLMechanism):
		return fmt.Sprintf("the broker does not know the mechanism of %s", sasl)
	case errors.Is(err, io.EOF):
		return fmt.Sprintf("the broker closed the connection, as some do when they do not accept %s", sasl)
	}
	return ""
}

// String names user and mechanism, and no secret.
func (s *SASL) String() string {
	if s.Mechanism == OAuthBearer {
		return "the token (SASL OAUTHBEARER)"
	}
	return fmt.Sprintf("user %q (SASL %s)", s.User, s.Mechanism)
}
