//go:build kafka

package kafka_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inboxd/inboxd/inbox/kafka"
)

// TestRealSecured reads over TLS, with an authority of the test's own, and says
// in every way who it is.
func TestRealSecured(t *testing.T) {
	a := newAuthority(t)
	dir := t.TempDir()
	certificates(t, a, filepath.Join(dir, "tls"))
	k, w := startRealIn(t, dir, "--sasl")
	secured, mutual := strings.Split(k.env("SASL_BOOTSTRAP"), ","), strings.Split(k.env("MTLS_BOOTSTRAP"), ",")
	password, token := filepath.Join(dir, "password"), filepath.Join(dir, "token")
	writeFile(t, password, k.env("SASL_PASSWORD")+"\n")
	writeFile(t, token, unsigned("inboxd"))
	cert, key := a.sign("client")

	for _, mechanism := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512, kafka.OAuthBearer} {
		w.secure = func(cfg *kafka.Config) {
			cfg.Brokers, cfg.TLS = secured, &kafka.TLS{CAFile: a.file}
			cfg.SASL = &kafka.SASL{Mechanism: mechanism, User: k.env("SASL_USERNAME"), PasswordFile: password, TokenFile: token}
		}
		t.Run(mechanism, func(t *testing.T) { testInOrderAndOnce(newBench(t, w)) })
		t.Run("not "+mechanism, func(t *testing.T) { testWrongSecret(newBench(t, w), password, token) })
	}
	w.secure = func(cfg *kafka.Config) {
		cfg.Brokers, cfg.TLS = secured, &kafka.TLS{CAFile: a.file}
		cfg.SASL = &kafka.SASL{Mechanism: kafka.ScramSHA512, User: k.env("SASL_USERNAME"), PasswordFile: password}
	}
	t.Run("rebalance", func(t *testing.T) { testRebalance(newBench(t, w)) })
	t.Run("killed under load", func(t *testing.T) { testKilledUnderLoad(newBench(t, w)) })
	w.secure = func(cfg *kafka.Config) {
		cfg.Brokers, cfg.TLS = mutual, &kafka.TLS{CAFile: a.file, CertFile: cert, KeyFile: key}
	}
	t.Run("client certificate", func(t *testing.T) { testInOrderAndOnce(newBench(t, w)) })
	w.secure = func(cfg *kafka.Config) { cfg.Brokers, cfg.TLS = mutual, &kafka.TLS{CAFile: a.file} }
	t.Run("no client certificate", func(t *testing.T) {
		b := newBench(t, w)
		b.start(b.config("t"), newMemory())
		b.awaitLog("the broker refuses the connection (TLS)")
	})
	w.secure = func(cfg *kafka.Config) { cfg.Brokers, cfg.TLS = mutual, &kafka.TLS{CAFile: newAuthority(t).file} }
	t.Run("another authority", func(t *testing.T) {
		b := newBench(t, w)
		b.start(b.config("t"), newMemory())
		b.awaitLog("the broker's certificate is not accepted (TLS)")
	})
}

// testWrongSecret begins with a wrong password and a wrong token, which is said,
// and goes on as soon as the files hold the right ones.
func testWrongSecret(b *bench, files ...string) {
	topic := b.topic("t", 1)
	b.produce(topic, 0, 5, "v")
	right := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		b.check(err)
		right[file] = string(content)
		writeFile(b.T, file, "wrong")
	}
	restore := func() {
		for file, content := range right {
			writeFile(b.T, file, content)
		}
	}
	b.Cleanup(restore)
	sink := newMemory()
	cfg := b.config(topic)
	b.start(cfg, sink)
	b.awaitLog("(SASL " + cfg.SASL.Mechanism + ")")
	restore()
	sink.awaitCount(b, topic, 0, 5)
}

// certificates are what the script gives to the broker.
func certificates(t *testing.T, a *authority, dir string) {
	t.Helper()
	cert, key := a.sign("localhost", loopback)
	ca, err1 := os.ReadFile(a.file)
	chain, err2 := os.ReadFile(cert)
	secret, err3 := os.ReadFile(key)
	err4 := os.MkdirAll(dir, 0o700)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, "ca.pem"), string(ca))
	writeFile(t, filepath.Join(dir, "server.pem"), string(secret)+string(chain)+string(ca))
}

// unsigned is a token that nobody signed, which a broker takes that was told of
// no authority for tokens.
func unsigned(subject string) string {
	encode := base64.RawURLEncoding.EncodeToString
	now := time.Now().Unix()
	return encode([]byte(`{"alg":"none"}`)) + "." + encode(fmt.Appendf(nil, `{"sub":%q,"iat":%d,"exp":%d}`, subject, now, now+3600)) + "."
}
