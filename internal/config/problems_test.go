package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inboxd/inboxd/internal/config"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ yaml, want string }{
		{"lane: {}", `inboxd.yaml:1: there is no key "lane"; the nearest known key is "lanes"`},
		{"lanes:\n  worker: 3", `inboxd.yaml:2: there is no key "lanes.worker"; the nearest known key is "lanes.workers"`},
		{"handler_timeout: 3s", `inboxd.yaml:1: there is no key "handler_timeout"; the nearest known key is "lanes.handler_timeout"`},
		{"Lanes: {}", `inboxd.yaml:1: there is no key "Lanes"; the nearest known key is "lanes"`},
		{"lanes.workers: 3", `inboxd.yaml:1: there is no key "lanes.workers"; the nearest known key is "lanes.workers"`},
		{"lanes: {retry: {multiplier: 0.5}}", `inboxd.yaml:1: lanes.retry.multiplier is 0.5, but it must be from 1 to 1000`},
		{"lanes: {retry: {jitter: some}}", `inboxd.yaml:1: lanes.retry.jitter is "some", but it must be a number, such as 1.5`},
		{"lanes: {retry: {permanent: [unique]}}", `inboxd.yaml:1: lanes.retry.permanent holds "unique", but a SQLSTATE is five letters and digits, such as 23505, or the first two, for a class`},
		{"lanes: {breaker: {max: 20ms}}", `lanes.breaker.max is 20ms, but it must not be less than lanes.breaker.probe, which is 1s`},
		{"lanes: {retry: {atempts: 3}}", `inboxd.yaml:1: there is no key "lanes.retry.atempts"; the nearest known key is "lanes.retry.attempts"`},

		{"- a", `inboxd.yaml:1: the configuration is a list, but it must be a mapping of keys to values`},
		{"lanes: 3", `inboxd.yaml:1: lanes is "3", but it must be a mapping of keys to values`},
		{"? [a]\n: b", `inboxd.yaml:1: a key of the configuration is a list, but it must be a text`},
		{"lanes:\n  batch: 1\n  batch: 2", `inboxd.yaml:3: lanes.batch is given twice, first at line 2`},
		{"lanes: &l\n  <<: *l", `inboxd.yaml:2: merge keys (<<) are not supported; write the keys out`},
		{"a: [", `inboxd.yaml: this is no YAML: line 1: did not find expected node content`},
		{"lanes: {}\n---\nlanes: {}", `inboxd.yaml: this is no YAML: line 2: a second document begins here`},

		{"lanes: {workers: many}", `inboxd.yaml:1: lanes.workers is "many", but it must be a whole number`},
		{"lanes: {workers: 1.5}", `inboxd.yaml:1: lanes.workers is "1.5", but it must be a whole number`},
		{"lanes: {workers: [1]}", `inboxd.yaml:1: lanes.workers is a list, but it must be a whole number`},
		{"lanes: {workers: 99999999999999999999}", `inboxd.yaml:1: lanes.workers is "99999999999999999999", but it must be a whole number`},
		{"lanes: {workers: 0}", `inboxd.yaml:1: lanes.workers is 0, but it must be at least 1`},
		{"lanes: {workers: 10001}", `inboxd.yaml:1: lanes.workers is 10001, but it must be at most 10000`},
		{"lanes: {batch: -1}", `inboxd.yaml:1: lanes.batch is -1, but it must be at least 1`},
		{"lanes: {lease: 10}", `inboxd.yaml:1: lanes.lease is "10", but it must be a duration with its unit, such as 200ms, 30s or 168h`},
		{"lanes: {lease: 10 s}", `inboxd.yaml:1: lanes.lease is "10 s", but it must be a duration with its unit, such as 200ms, 30s or 168h`},
		{"lanes: {lease: 1ms}", `inboxd.yaml:1: lanes.lease is 1ms, but it must be at least 1s`},
		{"lanes: {drain: -1s}", `inboxd.yaml:1: lanes.drain is -1s, but it must be at least 0s`},
		{"lanes: {order: random}", `inboxd.yaml:1: lanes.order is "random", but it must be position or sequence`},
		{"lanes: {order: sequence}", `inboxd.yaml:1: lanes.order is "sequence", but this version can order by position only`},
		{"lanes: {retry: {initial: 2m}}", `lanes.retry.max is 1m, but it must not be less than lanes.retry.initial, which is 2m`},

		{"database: {schema: \"\"}", `inboxd.yaml:1: database.schema is empty, but it must name a schema, such as inboxd`},
		{"database: {schema: " + strings.Repeat("é", 21) + "}", `inboxd.yaml:1: database.schema is "` + strings.Repeat("é", 21) + `", but it must have at most 40 bytes, and has 42`},
		{"database: {schema: pg_inbox}", `inboxd.yaml:1: database.schema is "pg_inbox", but PostgreSQL keeps names that begin with pg_ for itself`},
		{"database: {schema: \"a\\0b\"}", `inboxd.yaml:1: database.schema holds a NUL byte`},
		{"database: {max_connections: 1}", `inboxd.yaml:1: database.max_connections is 1, but it must be at least 2, or 0 for lanes.workers + 6`},
		{"database: {url: localhost}", `inboxd.yaml:1: database.url is "localhost", but it must be a connection string such as postgres://app@localhost:5432/shop`},
		{"database: {url: \"postgres://a:s3cret@h/d?sslmode=maybe\"}", `inboxd.yaml:1: database.url is "postgres://a:xxxxx@h/d?sslmode=maybe", but PostgreSQL's driver cannot use it: failed to configure TLS (sslmode is invalid)`},
		{"database: {url: \"postgres://a:s%3xcret@h/d\"}", `inboxd.yaml:1: database.url is "postgres://a:xxxxx@h/d", but special characters in the password must be percent-encoded`},
		{"database: {url: postgres://u@h/d, url_file: f}", `database.url and database.url_file are both set by inboxd.yaml, but only one of them can count`},
		{"database: {direct_url: localhost}", `inboxd.yaml:1: database.direct_url is "localhost", but it must be a connection string such as postgres://app@localhost:5432/shop`},
		{"database: {direct_url: \"postgres://a:s%3xcret@h/d\"}", `inboxd.yaml:1: database.direct_url is "postgres://a:xxxxx@h/d", but special characters in the password must be percent-encoded`},
		{"database: {direct_url: postgres://u@h/d, direct_url_file: f}", `database.direct_url and database.direct_url_file are both set by inboxd.yaml, but only one of them can count`},
		{"database: {direct_url_file: /no/such}", `database.direct_url_file is "/no/such", but that file cannot be read: no such file or directory`},
		{"database: {url_file: /no/such}", `database.url_file is "/no/such", but that file cannot be read: no such file or directory`},

		{"kafka: {topics: orders}", `inboxd.yaml:1: kafka.topics is "orders", but it must be a list, such as [a, b]`},
		{"kafka: {topics: [[a]]}", `inboxd.yaml:1: kafka.topics holds a list, but its items must be texts`},
		{"kafka: {topics: [a b]}", `inboxd.yaml:1: kafka.topics holds "a b", but a topic has 1 to 249 letters, digits, dots, dashes and underscores`},
		{"kafka: {topics: [a, b, a]}", `inboxd.yaml:1: kafka.topics holds "a" twice`},
		{"kafka: {topics: [\"^a(\"]}", `inboxd.yaml:1: kafka.topics holds "^a(", but a topic that begins with ^ is a regular expression: missing closing ) in ^a(`},
		{"kafka: {topics: [\"^a.*\", \"^a.*\"]}", `inboxd.yaml:1: kafka.topics holds "^a.*" twice`},
		{"kafka: {topic_refresh: 1m}", `inboxd.yaml:1: kafka.topic_refresh is 1m, but it must be from 100ms to 30s`},
		{"kafka: {instance_id: a b}", `inboxd.yaml:1: kafka.instance_id is "a b", but it must have 1 to 249 letters, digits, dots, dashes and underscores`},
		{"kafka: {max_bytes: 64KiB}", `inboxd.yaml:1: kafka.max_bytes is 64KiB, but it must be at least 1MiB`},
		{"kafka: {max_bytes: lots}", `inboxd.yaml:1: kafka.max_bytes is "lots", but it must be a number of bytes, such as 64MiB`},
		{"kafka: {max_bytes: 9999999999GiB}", `inboxd.yaml:1: kafka.max_bytes is "9999999999GiB", but it must be a number of bytes, such as 64MiB`},
		{"kafka: {tls: {enabled: maybe}}", `inboxd.yaml:1: kafka.tls.enabled is "maybe", but it must be true or false`},
		{"kafka: {tls: {ca_file: ca.pem}}", `kafka.tls.ca_file is "ca.pem", but kafka.tls.enabled is false, so that nothing would be encrypted`},
		{"kafka: {tls: {enabled: true, cert_file: c.pem}}", `kafka.tls.cert_file is "c.pem" and kafka.tls.key_file is "", but a certificate needs its key and a key its certificate`},
		{"kafka: {tls: {enabled: true, insecure_skip_verify: true}}", `inboxd.yaml:1: there is no key "kafka.tls.insecure_skip_verify"; the nearest known key is "kafka.instance_id"`},
		{"kafka: {sasl: {mechanism: GSSAPI}}", `inboxd.yaml:1: kafka.sasl.mechanism is "GSSAPI", but it must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER`},
		{"kafka: {sasl: {mechanism: PLAIN, password_file: f}}", `kafka.sasl.mechanism is PLAIN, but it needs a user, in kafka.sasl.user`},
		{"kafka: {sasl: {mechanism: SCRAM-SHA-256, user: u}}", `kafka.sasl.mechanism is SCRAM-SHA-256, but it needs a password, in the file that kafka.sasl.password_file names or in INBOXD_KAFKA_SASL_PASSWORD`},
		{"kafka: {sasl: {mechanism: PLAIN, user: u, password_file: f, token_file: t}}", `kafka.sasl.token_file is set, but kafka.sasl.mechanism is "PLAIN" and does not use it`},
		{"kafka: {sasl: {mechanism: OAUTHBEARER}}", `kafka.sasl.mechanism is OAUTHBEARER, but it needs a file that holds the token, in kafka.sasl.token_file`},
		{"kafka: {sasl: {mechanism: OAUTHBEARER, token_file: t, user: u}}", `kafka.sasl.user is set, but kafka.sasl.mechanism is "OAUTHBEARER" and does not use it`},
		{"kafka: {sasl: {user: u}}", `kafka.sasl.user is set, but kafka.sasl.mechanism is "" and does not use it`},
		{"kafka: {sasl: {mechanism: PLAIN, user: u, password_file: f, password: s3cret}}", `inboxd.yaml:1: kafka.sasl.password may not stand in the file: set INBOXD_KAFKA_SASL_PASSWORD, or name a file that holds it in kafka.sasl.password_file`},
		{"kafka: {brokers: []}", `inboxd.yaml:1: kafka.brokers is an empty list, but it needs one broker at least, host:port`},
		{"kafka: {brokers: [localhost]}", `inboxd.yaml:1: kafka.brokers holds "localhost", but a broker is host:port, such as localhost:9092`},
		{"kafka: {group: \"\"}", `inboxd.yaml:1: kafka.group is empty, but it needs a name`},
		{"kafka: {format: jsn}", `inboxd.yaml:1: kafka.format is "jsn", but it must be auto, json, cloudevents, debezium or raw`},
		{"kafka: {tombstones: keep}", `inboxd.yaml:1: kafka.tombstones is "keep", but it must be quarantine, ignore or event`},
		{"kafka: {start: yesterday}", `inboxd.yaml:1: kafka.start is "yesterday", but it must be oldest, newest or a time such as 2026-01-31T12:00:00Z`},
		{"kafka: {start: !env X}", `inboxd.yaml:1: kafka.start is of the type !env, but it must be a text`},
		{"kafka: {fields: {event_id: []}}", `inboxd.yaml:1: kafka.fields.event_id is an empty list, but without a place to find it no record becomes an event`},
		{"kafka: {fields: {event_id: [id]}}", `inboxd.yaml:1: kafka.fields.event_id holds "id", but a place is key, header:NAME, ce:ATTRIBUTE or a JSON path such as $.order.id or $.items[0].id`},
		{"kafka: {fields: {aggregate_id: [topic-partition-offset]}}", `inboxd.yaml:1: kafka.fields.aggregate_id holds "topic-partition-offset", but a place is topic-partition-offset for kafka.fields.event_id alone`},
		{"kafka: {fields: {event_id: [\"tombstone:X\"]}}", `inboxd.yaml:1: kafka.fields.event_id holds "tombstone:X", but a place is tombstone:TYPE for kafka.fields.event_type alone`},
		{"kafka: {fields: {event_type: [\"header:t\", \"tombstone:X\"]}}", `kafka.tombstones is "quarantine", but it must be event, because kafka.fields.event_type holds "tombstone:X"`},

		{"admin: {listen: \":8080\"}", `inboxd.yaml:1: admin.listen is ":8080", but this version has no admin port: leave it empty`},

		{"handlers: [A]", `inboxd.yaml:1: handlers is a list, but it must be a mapping of event types to handlers`},
		{"handlers: {A: ignored}", `inboxd.yaml:1: handlers.A is "ignored", but it must be ignore, {sql: STATEMENT}, {sql: [STATEMENT, …]} or {webhook: {url: URL}}, with retry or without`},
		{"handlers: {A: }", `inboxd.yaml:1: handlers.A is empty, but it must be ignore, {sql: STATEMENT}, {sql: [STATEMENT, …]} or {webhook: {url: URL}}, with retry or without`},
		{"handlers: {A: {}}", `inboxd.yaml:1: handlers.A has 0 keys, but it must be ignore, {sql: STATEMENT}, {sql: [STATEMENT, …]} or {webhook: {url: URL}}, with retry or without`},
		{"handlers:\n  A:\n    sqll: x", `inboxd.yaml:3: there is no key "handlers.A.sqll"; the nearest known key is "handlers.A.sql"`},
		{"handlers: {A: {sql: \"\"}}", `inboxd.yaml:1: handlers.A.sql is or holds an empty text, but it must be an SQL statement or a list of them`},
		{"handlers: {A: {sql: []}}", `inboxd.yaml:1: handlers.A.sql is an empty list, but it must hold a statement; an event type that needs no work is written as ignore`},
		{"handlers: {A: {sql: [{a: b}]}}", `inboxd.yaml:1: handlers.A.sql is or holds a mapping, but it must be an SQL statement or a list of them`},
		{"handlers: {A: {sql: x, retry: sometimes}}", `inboxd.yaml:1: handlers.A.retry is "sometimes", but it must be never or {initial, max, multiplier, jitter, attempts}`},
		{"handlers: {A: {sql: x, retry: {}}}", `inboxd.yaml:1: handlers.A.retry is a mapping, but it must be never or {initial, max, multiplier, jitter, attempts}`},
		{"handlers: {A: {sql: x, retry: {atempts: 1}}}", `inboxd.yaml:1: there is no key "handlers.A.retry.atempts"; the nearest known key is "handlers.A.retry.attempts"`},
		{"handlers: {A: {sql: x, retry: {attempts: 0}}}", `inboxd.yaml:1: handlers.A.retry.attempts is "0", but it must be a whole number, at least 1`},
		{"handlers: {A: {sql: x, retry: {initial: 2s, max: 1s}}}", `inboxd.yaml:1: handlers.A.retry.max is 1s, but it must not be less than initial, which is 2s`},
		{"handlers: {A: {sql: x, retry: {jitter: 2}}}", `inboxd.yaml:1: handlers.A.retry.jitter is "2", but it must be a number from 0 to 1`},
		{"handlers:\n  A: ignore\n  A: ignore", `inboxd.yaml:3: handlers.A is given twice, first at line 2`},
		{"handlers: {\"\": ignore}", `inboxd.yaml:1: handlers holds an empty event type`},
		{"handlers: {A: {webhook: \"https://h/p\"}}", `inboxd.yaml:1: handlers.A.webhook is "https://h/p", but it must be {url: URL, timeout: DURATION}`},
		{"handlers: {A: {webhook: {timeout: 5s}}}", `inboxd.yaml:1: handlers.A.webhook has no url, but it must be {url: URL, timeout: DURATION}`},
		{"handlers: {A: {webhook: {url: h/p}}}", `inboxd.yaml:1: handlers.A.webhook.url is "h/p", but it must be an http or https URL`},
		{"handlers: {A: {webhook: {url: [h]}}}", `inboxd.yaml:1: handlers.A.webhook.url is a list, but it must be a text`},
		{"handlers: {A: {webhook: {url: \"https://u:s3cret@h/p\"}}}", `inboxd.yaml:1: handlers.A.webhook.url is "https://u:xxxxx@h/p", but a URL with a user in it may not stand in the file: use token_file, token_env, secret_file or secret_env`},
		{"handlers: {A: {webhook: {url: \"https://u:s3cret\\u0001@h/p\"}}}", `inboxd.yaml:1: handlers.A.webhook.url is "xxxxx", but it must be an http or https URL`},
		{"handlers: {A: {webhook: {url: \"https://h\", urll: x}}}", `inboxd.yaml:1: there is no key "handlers.A.webhook.urll"; the nearest known key is "handlers.A.webhook.url"`},
		{"handlers: {A: {webhook: {url: \"https://h\", timeout: 5}}}", `inboxd.yaml:1: handlers.A.webhook.timeout is "5", but it must be a duration with its unit, such as 200ms, 30s or 168h, and at least 1ms`},
		{"handlers: {A: {webhook: {url: \"https://h\", concurrency: 0}}}", `inboxd.yaml:1: handlers.A.webhook.concurrency is "0", but it must be a whole number, at least 1`},
		{"handlers: {A: {webhook: {url: \"https://h\", headers: [a]}}}", `inboxd.yaml:1: handlers.A.webhook.headers is a list, but it must be a mapping of names to texts`},
		{"handlers: {A: {webhook: {url: \"https://h\", headers: {A: [b]}}}}", `inboxd.yaml:1: handlers.A.webhook.headers.A is a list, but it must be a text`},
		{"handlers: {A: {webhook: {url: \"https://h\", headers: {X-Api-Key: s3cret}}}}", `inboxd.yaml:1: handlers.A.webhook.headers.X-Api-Key looks like a secret, which may not stand in the file: use token_file or token_env, with token_header: X-Api-Key`},
		{"handlers: {A: {webhook: {url: \"https://h\", token_file: \"\"}}}", `inboxd.yaml:1: handlers.A.webhook.token_file is "", but it must be a text`},
		{"handlers: {A: {webhook: {url: \"https://h\", token: s3cret}}}", `inboxd.yaml:1: there is no key "handlers.A.webhook.token"; the nearest known key is "handlers.A.webhook.token_env"`},
		{"handlers: {A: {webhook: {url: \"https://h\", token_file: f, token_env: E}}}", `handlers.A.webhook.token_file and handlers.A.webhook.token_env are both set, but only one of them can count`},
		{"handlers: {A: {webhook: {url: \"https://h\", secret_file: f, secret_env: E}}}", `handlers.A.webhook.secret_file and handlers.A.webhook.secret_env are both set, but only one of them can count`},
		{"handlers: {A: {webhook: {url: \"https://h\", token_header: X-Key}}}", `handlers.A.webhook.token_header is "X-Key", but there is no token for it: set token_file or token_env`},
		{"handlers: {A: {webhook: {url: \"https://h\", timeout: 1m}}}", `handlers.A.webhook.timeout is 1m, but it must not be more than lanes.handler_timeout, which is 30s`},
		{"handlers: {A: {webhook: {url: \"https://h\"}, sql: x}}", `inboxd.yaml:1: handlers.A has 2 keys, but it must be ignore, {sql: STATEMENT}, {sql: [STATEMENT, …]} or {webhook: {url: URL}}, with retry or without`},
	} {
		t.Run(tc.yaml, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, tc.yaml)
			var e *config.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, no *config.Error", err)
			}
			equal(t, err.Error(), tc.want)
			if strings.Contains(err.Error(), "s3cret") {
				t.Error("the password shows")
			}
		})
	}
}

func TestProblemsOfVariables(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ entry, want string }{
		{"INBOXD_LANES_WORKER=3", "INBOXD_LANES_WORKER: no setting has this name; the nearest known variable is INBOXD_LANES_WORKERS"},
		{"INBOXD_HANDLER_TIMEOUT=3s", "INBOXD_HANDLER_TIMEOUT: no setting has this name; the nearest known variable is INBOXD_LANES_HANDLER_TIMEOUT"},
		{"INBOXD_CONFG=x", "INBOXD_CONFG: no setting has this name; the nearest known variable is INBOXD_CONFIG"},
		{"INBOXD_HANDLERS_A=ignore", "INBOXD_HANDLERS_A: handlers come from the configuration file only"},
		{"INBOXD_LANES_LEASE=1", `INBOXD_LANES_LEASE: lanes.lease is "1", but it must be a duration with its unit, such as 200ms, 30s or 168h`},
		{"INBOXD_KAFKA_SASL_PASSWORD=s3cret\xff", "INBOXD_KAFKA_SASL_PASSWORD: kafka.sasl.password is no valid UTF-8"},
		{"INBOXD_KAFKA_SASL_PASSWORD=s3cret", `kafka.sasl.password is set, but kafka.sasl.mechanism is "" and does not use it`},
		{"INBOXD_KAFKA_TOPICS=^a[", `INBOXD_KAFKA_TOPICS: kafka.topics holds "^a[", but a topic that begins with ^ is a regular expression: missing closing ] in [`},
		{"INBOXD_KAFKA_GROUP=a\xff", "INBOXD_KAFKA_GROUP: kafka.group is no valid UTF-8"},
		{"DATABASE_URL=mysql://a:s3cret@h/d", `DATABASE_URL: database.url is "mysql://a:xxxxx@h/d", but it must be a connection string such as postgres://app@localhost:5432/shop`},
	} {
		_, err := load(t, "", tc.entry)
		if err == nil {
			t.Errorf("%s: no error", tc.entry)
			continue
		}
		equal(t, err.Error(), tc.want)
	}
	if _, err := load(t, "", "INBOXD_DATABASE_URL=host=h", "INBOXD_DATABASE_URL_FILE=f"); err == nil {
		t.Error("two sources of one URL were taken")
	}
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := load(t, "lanes:\n  worker: 1\n  batch: x\nkafka: {topics: a}\nhandlers: {A: {webhook: {url: x, tiemout: 1}}}\n",
		"INBOXD_LANES_LEASE=x", "INBOXD_NOPE=1")
	var e *config.Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	equal(t, len(e.Problems), 7)
	equal(t, strings.Count(err.Error(), "\n"), 6)
	var p *config.Problem
	if !errors.As(err, &p) {
		t.Fatal("no problem inside")
	}
	equal(t, *p, config.Problem{Where: "inboxd.yaml:2", Key: "lanes.worker", Text: `there is no key "lanes.worker"; the nearest known key is "lanes.workers"`})
}

func TestFileOfURL(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "empty"), " \n")
	write(t, filepath.Join(dir, "broken"), "postgres://u:s3 cret")
	for name, want := range map[string]string{
		"empty":  "that file is empty",
		"broken": `broken: database.url is "postgres://u:xxxxx", but`,
	} {
		_, err := config.Load(config.Options{Dir: dir, Environ: []string{"INBOXD_DATABASE_URL_FILE=" + name}})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"key", "header:id", "header:a.b:c", "$.a", "$.a.b[0]", "$[0].a", "$.a-b", "$.a[0][1]", "ce:subject", `$["a.b"]['c d'][0].e`, `$[""]`} {
		if _, err := load(t, "", "INBOXD_KAFKA_FIELDS_SEQUENCE="+good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"Key", "header:", "header", "$", "$.", "$a", "$.a[", "$.a[x]", "$.a[-1]", "$.a[]", "$.a..b", "$.a]", "$.a[0]b", "a.b", "$.a [0]", "ce:", "ce: a", `$["a]`, `$["a'].b`, `$["a"`, "topic-partition-offset", "tombstone:X"} {
		if _, err := load(t, "", "INBOXD_KAFKA_FIELDS_SEQUENCE="+bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := load(t, "", "INBOXD_KAFKA_FIELDS_EVENT_ID=header:id,topic-partition-offset",
		"INBOXD_KAFKA_FIELDS_EVENT_TYPE=tombstone:Deleted", "INBOXD_KAFKA_TOMBSTONES=event"); err != nil {
		t.Error(err)
	}
}

func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, config.DefaultFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(config.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "cannot be read: is a directory") {
		t.Error(err)
	}
}
