package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/inboxd/inboxd/internal/config"
)

// load writes yaml, if there is any, to inboxd.yaml in a directory of its own
// and loads it.
func load(t *testing.T, yaml string, environ ...string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	if yaml != "" {
		write(t, filepath.Join(dir, config.DefaultFile), yaml)
	}
	return config.Load(config.Options{Dir: dir, Environ: environ})
}

func mustLoad(t *testing.T, yaml string, environ ...string) *config.Config {
	t.Helper()
	c, err := load(t, yaml, environ...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

// documented is the example of the documentation, which shows the defaults,
// with what this version can run.
const documented = `
database:
  url: postgres://app@localhost:5432/shop
  schema: inboxd
kafka:
  brokers: [localhost:9092]
  group: shop-inbox
  topics: [orders, payments]
  format: auto            # auto | json | cloudevents | debezium | raw
  fields:                 # where each field is found; first hit wins
    event_id:     [header:id, "$.eventId"]
    aggregate_id: [key, "$.orderId"]
    event_type:   [header:eventType, "$.eventType"]
    sequence:     ["$.version"]
lanes:
  workers: 16
  batch: 16
  order: position
  handler_timeout: 30s
  lease: 10s
  drain: 30s
  retry: {initial: 200ms, max: 1m, attempts: 10}
handlers:
  OrderPaid:
    sql: update balances set amount = amount - (@payload::jsonb->>'amount')::bigint where account_id = @aggregate_id
  com.example.order.shipped:
    sql: ["insert into a values ('$1 ${HOME}')", "insert into b values (1)"]
  OrderShipped:
    webhook: {url: "https://shipping.internal/hooks", timeout: 5s}
  OrderViewed: ignore
retention: {processed: 168h}
`

func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	got := mustLoad(t, documented)
	want := config.Default()
	want.File = config.DefaultFile
	want.Kafka.Topics = []string{"orders", "payments"}
	want.Handlers = map[string]config.Handler{
		"OrderPaid":                 {SQL: []string{"update balances set amount = amount - (@payload::jsonb->>'amount')::bigint where account_id = @aggregate_id"}},
		"com.example.order.shipped": {SQL: []string{"insert into a values ('$1 ${HOME}')", "insert into b values (1)"}},
		"OrderShipped":              {Webhook: &config.Webhook{URL: "https://shipping.internal/hooks", Timeout: 5 * time.Second, Concurrency: 8}},
		"OrderViewed":               {Ignore: true},
	}
	equal(t, got, want)
}

func TestNothingSaidIsDefault(t *testing.T) {
	t.Parallel()
	for name, yaml := range map[string]string{
		"no file": "", "blank": "\n", "comment": "# nothing\n", "null": "null\n",
		"empty sections": "database:\nkafka:\n  fields:\n  topics:\nhandlers:\nlanes: {}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := mustLoad(t, yaml)
			got.File = ""
			equal(t, got, config.Default())
		})
	}
	c := config.Default()
	equal(t, c.Database.MaxConnections, 22)
	equal(t, c.Lanes.Retry, config.Retry{
		Initial: 200 * time.Millisecond, Max: time.Minute, Multiplier: 2, Jitter: 0.25, Attempts: 10,
		Permanent: []string{}, Transient: []string{},
	})
}

func TestConnectionsFollowWorkers(t *testing.T) {
	t.Parallel()
	equal(t, mustLoad(t, "lanes: {workers: 4}").Database.MaxConnections, 10)
	equal(t, mustLoad(t, "database: {max_connections: 0}").Database.MaxConnections, 22)
	equal(t, mustLoad(t, "database: {max_connections: 7}").Database.MaxConnections, 7)
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, config.DefaultFile), "lanes: {workers: 2, batch: 2, lease: 2s}\n")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Int("workers", 16, "")
	flags.StringSlice("topic", nil, "")
	flags.Duration("drain", time.Hour, "")
	config.BindFlag(flags, "workers", "lanes.workers")
	config.BindFlag(flags, "topic", "kafka.topics")
	config.BindFlag(flags, "drain", "lanes.drain")
	if err := flags.Parse([]string{"--workers", "4", "--topic", "a", "--topic", "b"}); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Options{
		Dir: dir, Flags: flags,
		Environ: []string{"INBOXD_LANES_WORKERS=3", "INBOXD_LANES_BATCH=3", "INBOXD_KAFKA_TOPICS=x", "INBOXD_LANES_RETRY_MAX="},
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, c.Lanes.Workers, 4)           // flag
	equal(t, c.Lanes.Batch, 3)             // environment
	equal(t, c.Lanes.Lease, 2*time.Second) // file
	equal(t, c.Lanes.Drain, 30*time.Second)
	equal(t, c.Lanes.Retry.Max, time.Minute)
	equal(t, c.Kafka.Topics, []string{"a", "b"})
}

func TestFileIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "kafka: {group: a}")
	write(t, filepath.Join(dir, "b.yaml"), "kafka: {group: b}")
	write(t, filepath.Join(dir, config.DefaultFile), "kafka: {group: default}")
	for _, tc := range []struct{ flag, env, group string }{
		{"", "", "default"},
		{"", "b.yaml", "b"},
		{"a.yaml", "b.yaml", "a"},
		{filepath.Join(dir, "a.yaml"), "", "a"},
	} {
		c, err := config.Load(config.Options{Dir: dir, File: tc.flag, Environ: []string{"INBOXD_CONFIG=" + tc.env}})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, c.Kafka.Group, tc.group)
	}
	for _, o := range []config.Options{
		{Dir: dir, File: "missing.yaml"},
		{Dir: dir, Environ: []string{"INBOXD_CONFIG=missing.yaml"}},
	} {
		if _, err := config.Load(o); err == nil || !strings.Contains(err.Error(), "missing.yaml cannot be read: no such file") {
			t.Errorf("a missing file: %v", err)
		}
	}
	if _, err := config.Load(config.Options{File: dir}); err == nil {
		t.Error("a directory was read as a file")
	}
}

func TestEveryKeyHasItsVariable(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"database.url": "postgres://u@h/d", "database.url_file": "", "database.schema": "s",
		"database.direct_url": "postgres://u@direct/d", "database.direct_url_file": "",
		"database.max_connections": "9", "kafka.brokers": "a:1, b:2,", "kafka.group": "g", "kafka.topics": "t",
		"kafka.format": "raw", "kafka.fields.event_id": "key,$.a[0].b", "kafka.fields.aggregate_id": "header:a",
		"kafka.fields.event_type": "header:t", "kafka.fields.sequence": "header:s", "kafka.fields.occurred_at": "$.at",
		"kafka.tombstones": "event", "kafka.start": "2026-01-31T12:00:00Z", "lanes.workers": "1", "lanes.batch": "2",
		"lanes.flush_each": "true", "lanes.order": "position", "lanes.handler_timeout": "1s", "lanes.lease": "2s", "lanes.drain": "3s",
		"lanes.retry.multiplier": "1.5", "lanes.retry.jitter": "0", "lanes.retry.permanent": "23,22012", "lanes.retry.transient": "42501",
		"lanes.breaker.lanes": "7", "lanes.breaker.probe": "8s", "lanes.breaker.max": "9s",
		"lanes.retry.initial": "4ms", "lanes.retry.max": "5m", "lanes.retry.attempts": "6",
		"retention.processed": "7h", "admin.listen": "",
		"kafka.topic_refresh": "1s", "kafka.instance_id": "i-1", "kafka.max_bytes": "3MiB",
		"kafka.tls.enabled": "true", "kafka.tls.ca_file": "ca", "kafka.tls.cert_file": "c", "kafka.tls.key_file": "k",
		"kafka.tls.server_name": "n", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.user": "u",
		"kafka.sasl.password_file": "p", "kafka.sasl.password": "pw", "kafka.sasl.token_file": "",
	}
	var environ []string
	for key, name := range config.Variables() {
		value, known := values[key]
		if !known {
			t.Errorf("this test has no value for %s", key)
		}
		environ = append(environ, name+"="+value)
	}
	c := mustLoad(t, "", environ...)
	want := config.Default()
	want.Database = config.Database{URL: "postgres://u@h/d", DirectURL: "postgres://u@direct/d", Schema: "s", MaxConnections: 9}
	want.Kafka = config.Kafka{
		Brokers: []string{"a:1", "b:2"}, Group: "g", Topics: []string{"t"}, Format: "raw",
		TopicRefresh: time.Second, InstanceID: "i-1", MaxBytes: 3 << 20,
		TLS:  config.TLS{Enabled: true, CAFile: "ca", CertFile: "c", KeyFile: "k", ServerName: "n"},
		SASL: config.SASL{Mechanism: "PLAIN", User: "u", PasswordFile: "p", Password: "pw"},
		Fields: config.Fields{
			EventID: []string{"key", "$.a[0].b"}, AggregateID: []string{"header:a"}, EventType: []string{"header:t"},
			Sequence: []string{"header:s"}, OccurredAt: []string{"$.at"},
		},
		Tombstones: "event", Start: "2026-01-31T12:00:00Z",
	}
	want.Lanes = config.Lanes{
		Workers: 1, Batch: 2, FlushEach: true, Order: "position", HandlerTimeout: time.Second, Lease: 2 * time.Second, Drain: 3 * time.Second,
		Retry: config.Retry{
			Initial: 4 * time.Millisecond, Max: 5 * time.Minute, Multiplier: 1.5, Attempts: 6,
			Permanent: []string{"23", "22012"}, Transient: []string{"42501"},
		},
		Breaker: config.Breaker{Lanes: 7, Probe: 8 * time.Second, Max: 9 * time.Second},
	}
	want.Retention.Processed = 7 * time.Hour
	equal(t, c, want)
	if at, ok := c.Kafka.StartTime(); !ok || at.Year() != 2026 {
		t.Errorf("StartTime: %v, %v", at, ok)
	}
}

func TestKeysAreConsistent(t *testing.T) {
	t.Parallel()
	variables := config.Variables()
	seen := map[string]string{}
	for key, name := range variables {
		if other := seen[name]; other != "" {
			t.Errorf("%s and %s share the variable %s", key, other, name)
		}
		seen[name] = key
	}
	for _, key := range config.RuleKeys() {
		if variables[key] == "" {
			t.Errorf("there is a rule for %s, which is no key", key)
		}
	}
}

func TestWhereTheDatabaseComesFrom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "url")
	write(t, file, "  postgres://file:secret@h/d\n")
	const byDefault = "postgres://app@localhost:5432/shop"
	for _, tc := range []struct {
		name, yaml string
		environ    []string
		want       string
	}{
		{"default", "", nil, byDefault},
		{"PG alone", "", []string{"PGHOST=/run"}, ""},
		{"PGPASSWORD completes", "", []string{"PGPASSWORD=x", "PGSSLMODE=disable"}, byDefault},
		{"empty PG", "", []string{"PGHOST="}, byDefault},
		{"file over PG", "database: {url: postgres://yaml@h/d}", []string{"PGHOST=/run"}, "postgres://yaml@h/d"},
		{"the default written down over PG", "database: {url: " + byDefault + "}", []string{"PGHOST=/run"}, byDefault},
		{"empty url is PG", `database: {url: ""}`, nil, ""},
		{"DATABASE_URL over file", "database: {url: postgres://yaml@h/d}", []string{"DATABASE_URL=postgres://env@h/d"}, "postgres://env@h/d"},
		{"DATABASE_URL over url_file", "database: {url_file: " + file + "}", []string{"DATABASE_URL=postgres://env@h/d"}, "postgres://env@h/d"},
		{"own over DATABASE_URL", "", []string{"DATABASE_URL=postgres://env@h/d", "INBOXD_DATABASE_URL=postgres://own@h/d"}, "postgres://own@h/d"},
		{"own file over DATABASE_URL", "", []string{"DATABASE_URL=postgres://env@h/d", "INBOXD_DATABASE_URL_FILE=" + file}, "postgres://file:secret@h/d"},
		{"url_file", "database: {url_file: " + file + "}", []string{"PGHOST=/run"}, "postgres://file:secret@h/d"},
		{"own over url_file", "database: {url_file: " + file + "}", []string{"INBOXD_DATABASE_URL=postgres://own@h/d"}, "postgres://own@h/d"},
		{"keywords and values", "database: {url: host=h user=u dbname=d}", nil, "host=h user=u dbname=d"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			equal(t, mustLoad(t, tc.yaml, tc.environ...).Database.URL, tc.want)
		})
	}
}

func TestWhereTheDirectURLIsFound(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/url"
	write(t, file, "postgres://file:secret@direct/d\n")
	const both = "database: {url: postgres://yaml@pooler/d, direct_url: postgres://yaml@direct/d}"
	for _, tc := range []struct {
		name, yaml string
		environ    []string
		want       string
	}{
		{"none", "database: {url: postgres://yaml@pooler/d}", nil, ""},
		{"in the file", both, nil, "postgres://yaml@direct/d"},
		{"in a file of its own", "database: {direct_url_file: " + file + "}", nil, "postgres://file:secret@direct/d"},
		{"own over file", both, []string{"INBOXD_DATABASE_DIRECT_URL=postgres://own@direct/d"}, "postgres://own@direct/d"},
		{"own file over file", both, []string{"INBOXD_DATABASE_DIRECT_URL_FILE=" + file}, "postgres://file:secret@direct/d"},
		{"beside another variable", "", []string{"DATABASE_URL=postgres://env@h/d", "INBOXD_DATABASE_DIRECT_URL=postgres://own@direct/d"}, "postgres://own@direct/d"},
		{"not of another database", both, []string{"DATABASE_URL=postgres://env@h/d"}, ""},
		{"with the same layer's", both, []string{"INBOXD_DATABASE_URL=postgres://own@pooler/d", "INBOXD_DATABASE_DIRECT_URL=postgres://own@direct/d"}, "postgres://own@direct/d"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			equal(t, mustLoad(t, tc.yaml, tc.environ...).Database.DirectURL, tc.want)
		})
	}
}

func TestPasswordByFlagIsRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://app:s3cret@h/d", "postgres://app@h/d?password=s3cret", "host=h password=s3cret", "postgres://app:s3cret/d",
	} {
		_, err := loadFlag(t, url)
		if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "INBOXD_DATABASE_URL") {
			t.Errorf("%s: %v", url, err)
		}
	}
	c, err := loadFlag(t, "postgres://flag@h/d")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, c.Database.URL, "postgres://flag@h/d")
}

func loadFlag(t *testing.T, url string) (*config.Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.String("database", "", "")
	config.BindFlag(flags, "database", "database.url")
	if err := flags.Parse([]string{"--database", url}); err != nil {
		t.Fatal(err)
	}
	return config.Load(config.Options{Dir: t.TempDir(), Flags: flags, Environ: []string{"INBOXD_DATABASE_URL=postgres://env@h/d"}})
}

func TestVariablesThatAreNoSettings(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "",
		"INBOXD_LOG_LEVEL=debug", "INBOXD_LOG_FORMAT=json", "INBOXD_TEST_DATABASE_URL=x", "INBOXD_POSTGRES_BIN=/x", "INBOXD_DEV_DIR=/x",
		"INBOXD_SERVICE_HOST=10.0.0.1", "INBOXD_SERVICE_PORT=80", "INBOXD_SERVICE_PORT_HTTP=80", "INBOXD_PORT=tcp://10.0.0.1:80",
		"INBOXD_PORT_80_TCP=tcp://10.0.0.1:80", "INBOXD_PORT_80_TCP_ADDR=10.0.0.1", "INBOXD_ADMIN_SERVICE_HOST=10.0.0.2",
		"INBOXDX=1", "OTHER=1")
	equal(t, c, config.Default())
}

func TestAliasesAreFollowed(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "kafka: {topics: &t [a], group: &g grp}\nlanes: {workers: 0x10, batch: \"3\"}\nhandlers: {A: {sql: &s [select 1, *g]}, B: {sql: *s}}\n")
	equal(t, c.Handlers["B"].SQL, []string{"select 1", "grp"})
	equal(t, c.Lanes.Workers, 16)
	equal(t, c.Lanes.Batch, 3)
	if !slices.Equal(c.Kafka.Topics, []string{"a"}) {
		t.Error(c.Kafka.Topics)
	}
}
