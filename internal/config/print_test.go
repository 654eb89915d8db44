package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.yaml.in/yaml/v3"

	"github.com/inboxd/inboxd/internal/config"
)

func TestPrintParsesAgain(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, documented, "INBOXD_LANES_LEASE=90m", "INBOXD_KAFKA_GROUP=true", "DATABASE_URL=postgres://a:s3cret@h/d")
	again := mustLoad(t, c.String())
	equal(t, again, c.Redacted())
	equal(t, again.Database.URL, "postgres://a:xxxxx@h/d")
	equal(t, again.String(), c.String())
}

func TestPrintNamesTheFileOfTheURL(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/url"
	write(t, file, "postgres://a:s3cret@h/d")
	c := mustLoad(t, "", "INBOXD_DATABASE_URL_FILE="+file, "INBOXD_DATABASE_DIRECT_URL_FILE="+file)
	equal(t, mustLoad(t, c.String()).Database, c.Database)
	if strings.Contains(c.String(), "url:") {
		t.Error(c)
	}
}

func TestJSONHoldsWhatYAMLDoes(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, documented)
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var fromJSON, fromYAML map[string]any
	if err := json.Unmarshal(b, &fromJSON); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(c.String()), &fromYAML); err != nil {
		t.Fatal(err)
	}
	equal(t, fmt.Sprint(fromJSON), fmt.Sprint(fromYAML))
}

func TestNoPasswordInLogs(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "", "DATABASE_URL=postgres://a:s3cret@h/d?sslpassword=s3cret", "INBOXD_DATABASE_DIRECT_URL=postgres://a:s3cret@d/d")
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "config", c, "database", c.Database)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "config", c, "database", c.Database)
	fmt.Fprintf(&b, "%v %+v %s %v %+v %#v", c, c, c, c.Database, *c, c.Database)
	if strings.Contains(b.String(), "s3cret") {
		t.Error(b.String())
	}
}

func TestNoSASLPasswordShows(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "kafka: {sasl: {mechanism: PLAIN, user: u}}", "INBOXD_KAFKA_SASL_PASSWORD=s3cret")
	equal(t, c.Kafka.SASL.Password, "s3cret")
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "config", c, "kafka", c.Kafka, "sasl", c.Kafka.SASL)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "config", c, "kafka", c.Kafka, "sasl", c.Kafka.SASL)
	fmt.Fprintf(&b, "%v %+v %s %v %+v %#v %v %+v %#v", c, c, c, c.Kafka, *c, c.Kafka, c.Kafka.SASL, c.Kafka.SASL, c.Kafka.SASL)
	if strings.Contains(b.String(), "s3cret") {
		t.Error(b.String())
	}
	if !strings.Contains(c.String(), "\n    password: xxxxx\n") {
		t.Error(c)
	}
}

func TestBytesPrintShort(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"1048576": "1MiB", "3 GiB": "3GiB", "1025KiB": "1025KiB", "1048577": "1048577", "0001024KiB": "1MiB",
	} {
		c := mustLoad(t, "kafka: {max_bytes: "+in+"}")
		if !strings.Contains(c.String(), "\n  max_bytes: "+want+"\n") && !strings.Contains(c.String(), "\n  max_bytes: \""+want+"\"\n") {
			t.Errorf("%s is not printed as %s:\n%s", in, want, c)
		}
	}
}

func TestRedactURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                           "",
		"postgres://app@h/d":                         "postgres://app@h/d",
		"postgres://app:@h/d":                        "postgres://app:@h/d",
		"postgres://app:pw@h:5432/d":                 "postgres://app:xxxxx@h:5432/d",
		"postgres://app:p@w@h/d":                     "postgres://app:xxxxx@h/d",
		"postgres://app:p?w#x@h/d":                   "postgres://app:xxxxx@h/d",
		"postgres://app:p/w@h/d":                     "postgres://app:xxxxx@h/d",
		"postgres://app:pw@h1:1,h2:2/d":              "postgres://app:xxxxx@h1:1,h2:2/d",
		"postgres://h1:1,[::1]:2/d":                  "postgres://h1:1,[::1]:2/d",
		"postgres://app:pw":                          "postgres://app:xxxxx",
		"postgres://app:pw/d":                        "postgres://app:xxxxx/d",
		"postgres://h/d?user=a&password=p%20w&x=y":   "postgres://h/d?user=a&password=xxxxx&x=y",
		"postgres://h/d?pass%77ord=pw":               "postgres://h/d?pass%77ord=xxxxx",
		"postgres://h?sslpassword=pw":                "postgres://h?sslpassword=xxxxx",
		"host=h password=pw dbname=d":                "host=h password=xxxxx dbname=d",
		"host=h password = 'p w\\' x' dbname=d":      "host=h password = xxxxx dbname=d",
		"password=p\\ w user=u sslpassword=x":        "password=xxxxx user=u sslpassword=xxxxx",
		"host=h password='not closed dbname=d":       "host=h password=xxxxx",
		"host=h passfile=/f user='a b'":              "host=h passfile=/f user='a b'",
		"https://hooks.example.com/a?token=b#c":      "https://hooks.example.com/a?token=b#c",
		"host=h options='-c a://b' password=pw":      "host=h options='-c a://b' password=xxxxx",
		"postgresql://app:pw@h/d?options=-c%20a%3Db": "postgresql://app:xxxxx@h/d?options=-c%20a%3Db",
	} {
		equal(t, config.RedactURL(in), want)
	}
}

// FuzzLoad feeds any bytes as the file: it must not panic, and what it takes
// must come back from its own print-out.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		documented, "a: &a [*a]", "lanes: &a {retry: *a}", "<<: 1", "handlers: {A: {sql: \" x\\n  y \\t\\n\"}}",
		"kafka: {topics: [a], group: 'x: y'}", "database: {url: 'host=h password=x'}", "\xff\xfe", "!!binary a: b", "? ", "handlers: {a: {sql: [\"#\", \"- a\"]}}",
	} {
		f.Add([]byte(s))
	}
	file := filepath.Join(f.TempDir(), config.DefaultFile) // a fuzzing process runs one input at a time
	f.Fuzz(func(t *testing.T, b []byte) {
		write(t, file, string(b))
		c, err := config.Load(config.Options{File: file})
		if err != nil {
			return
		}
		write(t, file, c.String())
		again, err := config.Load(config.Options{File: file})
		if err != nil {
			t.Fatalf("%v\nprinted:\n%s", err, c)
		}
		equal(t, again, c.Redacted())
	})
}

// FuzzRedactURL holds the redaction against the driver's own reading.
func FuzzRedactURL(f *testing.F) {
	f.Setenv("PGPASSWORD", "")
	f.Setenv("PGPASSFILE", filepath.Join(f.TempDir(), "none"))
	for _, s := range []string{
		"postgres://a:b@h/d?password=c", "host=h password='a\\'b' user=u", "postgres://a:b/c@d", "postgresql://a:b?c@h", "password=a\\ b", "password=\t'a'",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := config.RedactURL(s)
		before, err := pgconn.ParseConfig(s)
		if err != nil || before.Password == "" {
			return
		}
		after, err := pgconn.ParseConfig(out)
		if err == nil && after.Password == before.Password && after.Password != "xxxxx" {
			t.Errorf("%q became %q with the password %q", s, out, after.Password)
		}
	})
}

func TestDurationsPrintShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		10 * time.Second: "10s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		90 * time.Second: "1m30s", 1500 * time.Millisecond: "1.5s", 0: "0s", 3601 * time.Second: "1h0m1s",
	} {
		c := config.Default()
		c.Lanes.Drain = d
		if !strings.Contains(c.String(), "\n  drain: "+want+"\n") {
			t.Errorf("%s is not printed as %s", d, want)
		}
	}
}

func TestPoliciesPrintAgain(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, `
handlers:
  A: {sql: select 1, retry: never}
  B: {sql: [select 1, select 2], retry: {initial: 1s, max: 2s, multiplier: 1.5, jitter: 0, attempts: 3}}
  C: {retry: {jitter: 0.5}}
`)
	equal(t, c.Handlers["A"].Retry, &config.HandlerRetry{Never: true})
	equal(t, c.Handlers["B"].Retry, &config.HandlerRetry{Initial: time.Second, Max: 2 * time.Second, Multiplier: 1.5, Jitter: -1, Attempts: 3})
	equal(t, c.Handlers["C"].Retry, &config.HandlerRetry{Jitter: 0.5})
	again := mustLoad(t, c.String())
	equal(t, again.Handlers, c.Handlers)
}
