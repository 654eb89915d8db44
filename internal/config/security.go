package config

import (
	"fmt"
	"log/slog"
	"slices"
)

// TLS says how connections to the brokers are encrypted. The files are read again
// for each new connection.
type TLS struct {
	// Enabled: connections are encrypted, and the broker's certificate is
	// checked. Default: false.
	Enabled bool `koanf:"enabled"`
	// CAFile holds, in PEM, the authorities that may have signed the broker's
	// certificate. Empty: those of the system.
	CAFile string `koanf:"ca_file"`
	// CertFile and KeyFile are this process's own certificate and its key, in
	// PEM, for brokers that ask for one. Empty: none.
	CertFile string `koanf:"cert_file"`
	KeyFile  string `koanf:"key_file"`
	// ServerName is the name that the broker's certificate must have. Empty: the
	// host that is connected to.
	ServerName string `koanf:"server_name"`
}

// SASL is how the process says who it is. The files are read again for each new
// connection.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. Empty: none.
	Mechanism string `koanf:"mechanism"`
	// User is who the process is, by PLAIN and SCRAM.
	User string `koanf:"user"`
	// PasswordFile holds the password of User; what space is around it does not
	// count.
	PasswordFile string `koanf:"password_file"`
	// Password is the password of User, instead of PasswordFile. It comes from
	// INBOXD_KAFKA_SASL_PASSWORD and from nowhere else.
	Password string `koanf:"password"`
	// TokenFile holds the token of OAUTHBEARER; what space is around it does not
	// count.
	TokenFile string `koanf:"token_file"`
}

// passwordKey is refused in the file and never bound to a flag.
const passwordKey = "kafka.sasl.password"

const oauthBearer = "OAUTHBEARER"

var saslMechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", oauthBearer}

// setting is a key of a section and its value as a text.
type setting struct{ name, value string }

func (t TLS) check(ps *problems) {
	if !t.Enabled {
		for _, s := range []setting{{"ca_file", t.CAFile}, {"cert_file", t.CertFile}, {"key_file", t.KeyFile}, {"server_name", t.ServerName}} {
			if s.value != "" {
				ps.add("", "kafka.tls.enabled", "kafka.tls.%s is %q, but kafka.tls.enabled is false, so that nothing would be encrypted", s.name, shorten(s.value))
			}
		}
		return
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		ps.add("", "kafka.tls.cert_file", "kafka.tls.cert_file is %q and kafka.tls.key_file is %q, but a certificate needs its key and a key its certificate",
			shorten(t.CertFile), shorten(t.KeyFile))
	}
}

// check holds the keys against what the mechanism needs.
func (s SASL) check(ps *problems) {
	needs := func(key, what string) {
		ps.add("", "kafka.sasl."+key, "kafka.sasl.mechanism is %s, but it needs %s", s.Mechanism, what)
	}
	unused := func(names ...string) {
		for _, k := range []setting{{"user", s.User}, {"password_file", s.PasswordFile}, {"password", s.Password}, {"token_file", s.TokenFile}} {
			if k.value != "" && slices.Contains(names, k.name) {
				ps.add("", "kafka.sasl."+k.name, "kafka.sasl.%s is set, but kafka.sasl.mechanism is %q and does not use it", k.name, s.Mechanism)
			}
		}
	}
	switch s.Mechanism {
	case "":
		unused("user", "password_file", "password", "token_file")
	case oauthBearer:
		if s.TokenFile == "" {
			needs("token_file", "a file that holds the token, in kafka.sasl.token_file")
		}
		unused("user", "password_file", "password")
	default:
		if s.User == "" {
			needs("user", "a user, in kafka.sasl.user")
		}
		if s.PasswordFile == "" && s.Password == "" {
			needs("password_file", "a password, in the file that kafka.sasl.password_file names or in INBOXD_KAFKA_SASL_PASSWORD")
		}
		unused("token_file")
	}
}

func (s SASL) redacted() SASL {
	if s.Password != "" {
		s.Password = redacted
	}
	return s
}

// String shows the settings without the password.
func (s SASL) String() string {
	s = s.redacted()
	return fmt.Sprintf("{mechanism:%s user:%s password_file:%s password:%s token_file:%s}",
		s.Mechanism, s.User, s.PasswordFile, s.Password, s.TokenFile)
}

// GoString shows the settings without the password.
func (s SASL) GoString() string { return "config.SASL" + s.String() }

// LogValue keeps the password out of logs.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// LogValue keeps the password out of logs.
func (k Kafka) LogValue() slog.Value { return slog.StringValue(k.String()) }

// String shows the settings without the password.
func (k Kafka) String() string {
	k.SASL = k.SASL.redacted()
	type plain Kafka
	return fmt.Sprintf("%+v", plain(k))
}
