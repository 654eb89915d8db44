package kafka_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/inboxd/inboxd/inbox/kafka"
	"github.com/inboxd/inboxd/internal/broker"
)

var loopback = net.IPv4(127, 0, 0, 1)

// secure starts a broker with a topic, "t", on a port, 0 for any.
func secure(t *testing.T, port int, options ...kfake.Opt) (*broker.Broker, world) {
	t.Helper()
	return fake(t, broker.Config{Ports: []int{port}, Topics: map[string]int32{"t": 1}, Options: options})
}

// put writes n records to the topic "t" as a client with the options.
func (b *bench) put(n int, options ...kgo.Opt) {
	b.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(b.world.addrs...), kgo.DefaultProduceTopic("t"))...)
	b.check(err)
	defer client.Close()
	for i := range n {
		b.check(client.ProduceSync(b.ctx, kgo.StringRecord(fmt.Sprint(i))).FirstErr())
	}
}

func (b *bench) awaitLog(parts ...string) {
	b.Helper()
	b.eventually("the log has "+strings.Join(parts, " and "), func() bool {
		for line := range strings.Lines(b.log.String()) {
			found := true
			for _, part := range parts {
				found = found && strings.Contains(line, part)
			}
			if found {
				return true
			}
		}
		return false
	})
}

// The authority and the certificate are read for each new connection: what is
// wrong with them is said, and mended while the source runs.
func TestTLS(t *testing.T) {
	t.Parallel()
	right, wrong := newAuthority(t), newAuthority(t)
	server := right.server("broker.test", loopback)
	server.ClientAuth = tls.RequireAndVerifyClientCert
	_, w := secure(t, 0, kfake.TLS(server))
	b := newBench(t, w)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	copyFile(t, wrong.file, ca)
	cfg := b.config("t")
	cfg.TLS = &kafka.TLS{CAFile: ca}
	sink := newMemory()

	anonymous := b.start(cfg, sink)
	b.awaitLog("the broker's certificate is not accepted (TLS)", "unknown authority")
	copyFile(t, right.file, ca)
	b.awaitLog("the broker refuses the connection (TLS), perhaps for want of a certificate that it knows", "certificate required")
	if got := anonymous.Stats().LastError; !strings.Contains(got, "TLS") {
		t.Errorf("the stats say %q", got)
	}
	anonymous.stop()

	cert, key := filepath.Join(t.TempDir(), "c.pem"), filepath.Join(t.TempDir(), "c.key")
	use := func(a *authority) {
		certFile, keyFile := a.sign("client")
		copyFile(t, keyFile, key)
		copyFile(t, certFile, cert)
	}
	use(wrong)
	cfg.TLS = &kafka.TLS{CAFile: ca, CertFile: cert, KeyFile: key}
	b.log = &logBook{}
	known := b.start(b.logTo(cfg), sink)
	b.awaitLog("the broker refuses the connection (TLS)")
	use(right)
	pair, err := tls.LoadX509KeyPair(cert, key)
	b.check(err)
	b.put(3, kgo.DialTLSConfig(&tls.Config{RootCAs: right.pool(), Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}))
	sink.awaitCount(b, "t", 0, 3)
	known.stop()
}

func TestTLSServerName(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	_, w := secure(t, 0, kfake.TLS(a.server("broker.test"))) // not for 127.0.0.1
	b := newBench(t, w)
	cfg := b.config("t")
	cfg.TLS = &kafka.TLS{CAFile: a.file}
	c := b.start(cfg, newMemory())
	b.awaitLog("the broker's certificate is not accepted (TLS)", "127.0.0.1")
	c.stop()
	cfg.TLS = &kafka.TLS{CAFile: a.file, ServerName: "broker.test"}
	b.start(cfg, newMemory()).awaitMember(1)
}

// Who the source is, over TLS: a wrong password is said, with the user and the
// mechanism, and tried until it is right; a new one is taken from the file while
// the source runs.
func TestSASL(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	server := kfake.TLS(a.server("broker.test", loopback))
	for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			first, w := secure(t, 0, server, kfake.EnableSASL(), kfake.Superuser(mechanism, "app", "one, =1"))
			b := newBench(t, w)
			file := filepath.Join(t.TempDir(), "password")
			writeFile(t, file, "wr0ng")
			cfg := b.config("t")
			cfg.TLS = &kafka.TLS{CAFile: a.file}
			cfg.SASL = &kafka.SASL{Mechanism: mechanism, User: "app", PasswordFile: file}
			sink := newMemory()
			c := b.start(cfg, sink)
			b.awaitLog(`user \"app\" (SASL ` + mechanism + `)`)
			writeFile(t, file, " one, =1\n")
			client := kgo.DialTLSConfig(&tls.Config{RootCAs: a.pool(), MinVersion: tls.VersionTLS12})
			b.put(3, client, kgo.SASL(proof(mechanism, "one, =1")))
			sink.awaitCount(b, "t", 0, 3)

			first.Close()
			_, port, _ := net.SplitHostPort(w.addrs[0])
			_, b.world = secure(t, atoi(port), server, kfake.EnableSASL(), kfake.Superuser(mechanism, "app", "two"))
			writeFile(t, file, "two")
			b.put(5, client, kgo.SASL(proof(mechanism, "two")))
			sink.gaps = true // it is another topic, from its beginning
			b.eventually("the new topic is read", func() bool { return sink.count("t", 0) >= 5 })
			c.stop()
			for _, secret := range []string{"wr0ng", "one, =1", "two"} {
				if strings.Contains(b.log.String(), secret+"\n") || strings.Contains(b.log.String(), "="+secret) {
					t.Errorf("the log holds the password %q", secret)
				}
			}
		})
	}
}

func proof(mechanism, password string) sasl.Mechanism {
	switch mechanism {
	case kafka.ScramSHA256:
		return scram.Auth{User: "app", Pass: password}.AsSha256Mechanism()
	case kafka.ScramSHA512:
		return scram.Auth{User: "app", Pass: password}.AsSha512Mechanism()
	}
	return plain.Auth{User: "app", Pass: password}.AsMechanism()
}

// A password that has changed while the connections live on is taken at once,
// for those that are made later.
func TestPlainPasswordChanges(t *testing.T) {
	t.Parallel()
	_, w := secure(t, 0, kfake.EnableSASL(), kfake.Superuser(kafka.Plain, "app", "one"), kfake.Superuser(kafka.ScramSHA256, "tool", "x"))
	b := newBench(t, w)
	file := filepath.Join(t.TempDir(), "password")
	writeFile(t, file, "one")
	cfg := b.config("t")
	cfg.SASL = &kafka.SASL{Mechanism: kafka.Plain, User: "app", PasswordFile: file}
	sink := newMemory()
	c := b.start(cfg, sink)
	c.awaitMember(1)
	b.awaitLog("level=WARN", "SASL is used without TLS", "mechanism=PLAIN")
	b.check(os.Remove(file))
	b.awaitLog("The password cannot be read")
	b.put(3, kgo.SASL(proof(kafka.Plain, "one")))
	sink.awaitCount(b, "t", 0, 3) // what is connected stays so
	writeFile(t, file, "zwei")
	b.awaitLog("The password has changed; the group is joined anew")
	b.awaitLog(`user \"app\" (SASL PLAIN)`)
	writeFile(t, file, "one")
	b.put(3, kgo.SASL(proof(kafka.Plain, "one")))
	sink.awaitCount(b, "t", 0, 6)
	c.awaitMember(1)
	c.stop()
	if n := strings.Count(b.log.String(), "SASL is used without TLS"); n != 1 {
		t.Errorf("the warning was logged %d times", n)
	}
	sink.verify(b)
}

// The fake broker does not know OAUTHBEARER, and the source says so; the token is
// read for each connection.
func TestOAuthBearer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	s := &kafka.SASL{Mechanism: kafka.OAuthBearer, TokenFile: file}
	if _, err := s.Token(); err == nil || !strings.Contains(err.Error(), "the file of the SASL token cannot be read: open "+file) {
		t.Errorf("a missing file: %v", err)
	}
	writeFile(t, file, " \n")
	if _, err := s.Token(); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty file: %v", err)
	}
	for _, want := range []string{"abc", "def"} {
		writeFile(t, file, want+"\n")
		if got, err := s.Token(); err != nil || got.Token != want {
			t.Errorf("got %v, %v", got, err)
		}
	}
	_, w := secure(t, 0, kfake.EnableSASL())
	b := newBench(t, w)
	cfg := b.config("t")
	cfg.SASL = s
	b.start(cfg, newMemory())
	b.awaitLog("the broker does not know the mechanism of the token (SASL OAUTHBEARER)")
	if strings.Contains(b.log.String(), "def") {
		t.Error("the log holds the token")
	}
}

func TestSecurityErrors(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.sign("client")
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	writeFile(t, empty, "")
	for want, change := range map[string]func(*kafka.Config){
		"cannot be read: open /no/such":       func(c *kafka.Config) { c.TLS = &kafka.TLS{CAFile: "/no/such"} },
		"holds no certificate in PEM":         func(c *kafka.Config) { c.TLS = &kafka.TLS{CAFile: empty} },
		"A certificate needs its key":         func(c *kafka.Config) { c.TLS = &kafka.TLS{CertFile: cert} },
		"cannot be used":                      func(c *kafka.Config) { c.TLS = &kafka.TLS{CertFile: cert, KeyFile: a.file} },
		`The SASL mechanism "GSSAPI"`:         func(c *kafka.Config) { c.SASL = &kafka.SASL{Mechanism: "GSSAPI"} },
		"SASL PLAIN needs a user":             func(c *kafka.Config) { c.SASL = &kafka.SASL{Mechanism: kafka.Plain} },
		"the SASL password, " + empty:         func(c *kafka.Config) { c.SASL = &kafka.SASL{Mechanism: kafka.Plain, User: "u", PasswordFile: empty} },
		"the SASL token cannot be read: open": func(c *kafka.Config) { c.SASL = &kafka.SASL{Mechanism: kafka.OAuthBearer, TokenFile: "/no/such"} },
	} {
		cfg := kafka.Config{Brokers: []string{"b:9092"}, Group: "g", Topics: []string{"t"}}
		change(&cfg)
		if _, err := kafka.New(cfg, newMemory()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	good := kafka.Config{
		Brokers: []string{"b:9092"}, Group: "g", Topics: []string{"t"},
		TLS: &kafka.TLS{CAFile: a.file, CertFile: cert, KeyFile: key}, SASL: &kafka.SASL{Mechanism: kafka.Plain, User: "u", Password: "p"},
	}
	if _, err := kafka.New(good, newMemory()); err != nil {
		t.Error(err)
	}
}

// logTo has a configuration log to the present log book.
func (b *bench) logTo(cfg kafka.Config) kafka.Config {
	cfg.Log = b.config().Log
	return cfg
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, string(content))
}
