package config

import (
	"fmt"
	"maps"
	"math"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// rules say what else a value must be than of its key's type. A rule answers
// with a sentence, or with nothing.
var rules = map[string]func(k key, v any) string{
	"database.url":              connString,
	"database.direct_url":       connString,
	"database.schema":           schemaName,
	"database.max_connections":  connections,
	"kafka.brokers":             each("broker", broker),
	"kafka.group":               notEmpty,
	"kafka.topics":              each("topic", topicOrPattern),
	"kafka.topic_refresh":       refresh,
	"kafka.instance_id":         instanceID,
	"kafka.max_bytes":           atLeastBytes(1 << 20),
	"kafka.sasl.mechanism":      saslMechanism,
	"kafka.format":              oneOf("auto", "json", "cloudevents", "debezium", "raw"),
	"kafka.fields.event_id":     each("place", idPlace),
	"kafka.fields.aggregate_id": each("place", place),
	"kafka.fields.event_type":   each("place", typePlace),
	"kafka.fields.sequence":     each("place", place),
	"kafka.fields.occurred_at":  each("place", place),
	"kafka.tombstones":          oneOf("quarantine", "ignore", "event"),
	"kafka.start":               startTime,
	"lanes.workers":             between(1, 10_000),
	"lanes.batch":               between(1, 10_000),
	"lanes.order":               order,
	"lanes.handler_timeout":     atLeast(time.Millisecond),
	"lanes.lease":               atLeast(time.Second),
	"lanes.drain":               atLeast(0),
	"lanes.retry.initial":       atLeast(time.Millisecond),
	"lanes.retry.max":           atLeast(time.Millisecond),
	"lanes.retry.attempts":      between(1, math.MaxInt32),
	"lanes.retry.multiplier":    from(1, 1000),
	"lanes.retry.jitter":        from(0, 1),
	"lanes.retry.permanent":     each("SQLSTATE", sqlState),
	"lanes.retry.transient":     each("SQLSTATE", sqlState),
	"lanes.breaker.lanes":       between(0, math.MaxInt32),
	"lanes.breaker.probe":       atLeast(10 * time.Millisecond),
	"lanes.breaker.max":         atLeast(10 * time.Millisecond),
	"retention.processed":       atLeast(time.Second),
	"admin.listen":              adminListen,
}

// needed are the lists that may not be empty, and why.
var needed = map[string]string{
	"kafka.brokers":             "it needs one broker at least, host:port",
	"kafka.fields.event_id":     "without a place to find it no record becomes an event",
	"kafka.fields.aggregate_id": "without a place to find it no record becomes an event",
	"kafka.fields.event_type":   "without a place to find it no record becomes an event",
}

// checkTogether holds values against each other.
func (c *Config) checkTogether(ps *problems) {
	if r := c.Lanes.Retry; r.Max < r.Initial {
		ps.add("", "lanes.retry.max", "lanes.retry.max is %s, but it must not be less than lanes.retry.initial, which is %s",
			formatDuration(r.Max), formatDuration(r.Initial))
	}
	if b := c.Lanes.Breaker; b.Max < b.Probe {
		ps.add("", "lanes.breaker.max", "lanes.breaker.max is %s, but it must not be less than lanes.breaker.probe, which is %s",
			formatDuration(b.Max), formatDuration(b.Probe))
	}
	for _, p := range c.Kafka.Fields.EventType {
		if strings.HasPrefix(p, tombstoneType) && c.Kafka.Tombstones != "event" {
			ps.add("", "kafka.tombstones", "kafka.tombstones is %q, but it must be event, because kafka.fields.event_type holds %q", c.Kafka.Tombstones, shorten(p))
		}
	}
	for _, eventType := range slices.Sorted(maps.Keys(c.Handlers)) {
		c.Handlers[eventType].Webhook.check(ps, handlersKey+"."+eventType+".webhook", c.Lanes)
	}
	c.Kafka.TLS.check(ps)
	c.Kafka.SASL.check(ps)
}

func (k key) refuse(v any, format string, args ...any) string {
	return fmt.Sprintf("%s is %s, but ", k.path, k.show(v)) + fmt.Sprintf(format, args...)
}

func notEmpty(k key, v any) string {
	if strings.TrimSpace(v.(string)) == "" {
		return k.path + " is empty, but it needs a name"
	}
	return ""
}

func oneOf(allowed ...string) func(key, any) string {
	return func(k key, v any) string {
		if slices.Contains(allowed, v.(string)) {
			return ""
		}
		return k.refuse(v, "it must be %s", either(allowed))
	}
}

// either writes "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func between(least, most int) func(key, any) string {
	return func(k key, v any) string {
		switch n := v.(int); {
		case n < least:
			return k.refuse(v, "it must be at least %d", least)
		case n > most:
			return k.refuse(v, "it must be at most %d", most)
		}
		return ""
	}
}

func from(least, most float64) func(key, any) string {
	return func(k key, v any) string {
		if f := v.(float64); !(f >= least && f <= most) {
			return k.refuse(v, "it must be from %g to %g", least, most)
		}
		return ""
	}
}

var statePattern = regexp.MustCompile(`^[0-9A-Z]{2}([0-9A-Z]{3})?$`)

func sqlState(s string) string {
	if !statePattern.MatchString(s) {
		return "is five letters and digits, such as 23505, or the first two, for a class"
	}
	return ""
}

func atLeast(least time.Duration) func(key, any) string {
	return func(k key, v any) string {
		if v.(time.Duration) < least {
			return k.refuse(v, "it must be at least %s", formatDuration(least))
		}
		return ""
	}
}

// each makes a rule for a list of one for its items.
func each(noun string, wrong func(string) string) func(key, any) string {
	return func(k key, v any) string {
		items := v.([]string)
		if why := needed[k.path]; why != "" && len(items) == 0 {
			return fmt.Sprintf("%s is an empty list, but %s", k.path, why)
		}
		for i, item := range items {
			if s := wrong(item); s != "" {
				return fmt.Sprintf("%s holds %q, but a %s %s", k.path, shorten(item), noun, s)
			}
			if slices.Contains(items[:i], item) {
				return fmt.Sprintf("%s holds %q twice", k.path, item)
			}
		}
		return ""
	}
}

func connString(k key, v any) string {
	s := v.(string)
	if s == "" {
		return ""
	}
	if !strings.HasPrefix(s, "postgres://") && !strings.HasPrefix(s, "postgresql://") && !strings.Contains(s, "=") {
		return k.refuse(v, "it must be a connection string such as postgres://app@localhost:5432/shop")
	}
	if reason := driverRefusal(RedactURL(s)); reason != "" {
		return k.refuse(v, "PostgreSQL's driver cannot use it: %s", reason)
	}
	// Only the password can be wrong now, and the driver's words may hold it.
	if driverRefusal(s) != "" {
		return k.refuse(v, "special characters in the password must be percent-encoded")
	}
	return ""
}

// driverRefusal is why PostgreSQL's driver does not take a connection string.
func driverRefusal(s string) string {
	_, err := pgconn.ParseConfig(s)
	if err == nil {
		return ""
	}
	if _, reason, ok := strings.Cut(err.Error(), "`: "); ok {
		return reason
	}
	return err.Error()
}

// maxSchema leaves room for the names that are made from the schema's in the
// 63 bytes that PostgreSQL has for a name.
const maxSchema = 40

func schemaName(k key, v any) string {
	switch s := v.(string); {
	case strings.TrimSpace(s) == "":
		return k.path + " is empty, but it must name a schema, such as inboxd"
	case len(s) > maxSchema:
		return k.refuse(v, "it must have at most %d bytes, and has %d", maxSchema, len(s))
	case strings.HasPrefix(strings.ToLower(s), "pg_"):
		return k.refuse(v, "PostgreSQL keeps names that begin with pg_ for itself")
	}
	return ""
}

func connections(k key, v any) string {
	if n := v.(int); n != 0 && n < 2 {
		return k.refuse(v, "it must be at least 2, or 0 for lanes.workers + %d", extraConnections)
	}
	return between(0, math.MaxInt32)(k, v)
}

func broker(s string) string {
	host, port, err := net.SplitHostPort(s)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || portErr != nil || n == 0 || strings.ContainsAny(host, " /,") {
		return "is host:port, such as localhost:9092"
	}
	return ""
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

func topic(s string) string {
	if !topicName.MatchString(s) || s == "." || s == ".." {
		return "has 1 to 249 letters, digits, dots, dashes and underscores"
	}
	return ""
}

func startTime(k key, v any) string {
	s := v.(string)
	if _, ok := (Kafka{Start: s}).StartTime(); ok || s == "oldest" || s == "newest" {
		return ""
	}
	return k.refuse(v, "it must be oldest, newest or a time such as 2026-01-31T12:00:00Z")
}

func order(k key, v any) string {
	if v.(string) == "sequence" {
		return k.refuse(v, "this version can order by position only")
	}
	return oneOf("position", "sequence")(k, v)
}

func adminListen(k key, v any) string {
	if v.(string) != "" {
		return k.refuse(v, "this version has no admin port: leave it empty")
	}
	return ""
}
