package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/database"
	"github.com/inboxd/inboxd/internal/fault"
	"github.com/inboxd/inboxd/migrations"
)

// Status is how a check ended.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Warning Status = "warning" // it works, or could not be looked at
	Failed  Status = "failed"  // it does not work
)

// Result is the answer to one check.
type Result struct {
	Check  string  `json:"check"`
	Status Status  `json:"status"`
	Detail string  `json:"detail"`
	Remedy *string `json:"remedy"` // commands or SQL, a line each; nil: nothing to do
}

// Report is what was found.
type Report struct {
	Results []Result
	// Unreachable is why no database answered; nil: one did.
	Unreachable error
}

// Failed counts the results that failed.
func (r Report) Failed() int {
	n := 0
	for _, result := range r.Results {
		if result.Status == Failed {
			n++
		}
	}
	return n
}

// Options say what is looked at. Pool, Config and Registry are needed.
type Options struct {
	Pool   *pgxpool.Pool
	Config *config.Config
	// Registry has the handlers, those of the configuration included.
	Registry *handlers.Registry
	// Use is what the present role has to be allowed to do. Empty: one of the
	// uses, whichever.
	Use migrations.Use
	// Limit is how long one check may take. 0: 5 s.
	Limit time.Duration
}

const defaultLimit = 5 * time.Second

// examiner is what checks share.
type examiner struct {
	Options
	schema string        // quoted
	old    time.Duration // a snapshot that is held for longer keeps too many dead rows
}

// finding is the answer of a check before it has its name.
type finding struct {
	status         Status
	detail, remedy string
}

func fine(format string, args ...any) finding {
	return finding{status: OK, detail: fmt.Sprintf(format, args...)}
}

func warn(remedy, format string, args ...any) finding {
	return finding{Warning, fmt.Sprintf(format, args...), remedy}
}

func fail(remedy, format string, args ...any) finding {
	return finding{Failed, fmt.Sprintf(format, args...), remedy}
}

// check is a question; its error says why there is no answer.
type check struct {
	name string
	ask  func(*examiner, context.Context) (finding, error)
}

var (
	serverChecks = []check{
		{"server", (*examiner).server},
		{"settings", (*examiner).settings},
		{"time-outs", (*examiner).timeouts},
		{"pooler", (*examiner).pooler},
		{"clock", (*examiner).clock},
	}
	schemaChecks = []check{
		{"privileges", (*examiner).privileges},
		{"connections", (*examiner).connections},
		{"listen", (*examiner).listen},
		{"processes", (*examiner).processes},
		{"lanes", (*examiner).lanes},
		{"breakers", (*examiner).breakers},
		{"event types", (*examiner).eventTypes},
		{"vacuum", (*examiner).vacuum},
		{"snapshots", (*examiner).snapshots},
		{"lane locks", (*examiner).laneLocks},
	}
	webhookCheck = check{"webhooks", (*examiner).webhooks}
)

// Examine runs the checks in their order. Without a database it looks at Kafka
// alone; without the schema it leaves out what depends on it.
func Examine(ctx context.Context, o Options) Report {
	if o.Limit == 0 {
		o.Limit = defaultLimit
	}
	e := &examiner{Options: o, schema: pgx.Identifier{o.Config.Database.Schema}.Sanitize(), old: oldSnapshot}
	var r Report
	result, err := e.connection(ctx)
	r.Results, r.Unreachable = append(r.Results, result), err
	if err == nil {
		for _, c := range serverChecks {
			r.Results = append(r.Results, e.run(ctx, c))
		}
		version := e.run(ctx, check{"schema", (*examiner).schemaVersion})
		r.Results = append(r.Results, version)
		if version.Status != Failed {
			for _, c := range schemaChecks {
				r.Results = append(r.Results, e.run(ctx, c))
			}
		}
	}
	if len(e.hooks()) > 0 {
		r.Results = append(r.Results, e.run(ctx, webhookCheck))
	}
	r.Results = append(r.Results, e.kafka(ctx)...)
	return r
}

func (c check) result(f finding) Result {
	r := Result{Check: c.name, Status: f.status, Detail: f.detail}
	if f.remedy != "" {
		r.Remedy = &f.remedy
	}
	return r
}

// run asks one question, for as long as a check may take.
func (e *examiner) run(ctx context.Context, c check) Result {
	limited, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	f, err := c.ask(e, limited)
	switch {
	case err == nil:
	case limited.Err() != nil && ctx.Err() == nil:
		f = warn("inboxd doctor", "not known: it took longer than %s; ask again when the server is less busy", e.Limit)
	case fault.State(err) == "42501": // insufficient_privilege
		f = e.forbidden(ctx, err)
	default:
		f = fail("inboxd doctor", "not known: %s", firstLine(err.Error()))
	}
	return c.result(f)
}

// forbidden is the finding of a check that may not look.
func (e *examiner) forbidden(ctx context.Context, err error) finding {
	message := err.Error()
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		message = refusal.Message
	}
	limited, cancel := context.WithTimeout(ctx, e.Limit)
	defer cancel()
	remedy := "inboxd migrate roles"
	if sql, _, err := e.missing(limited, migrations.Read); err == nil && sql != "" {
		remedy = sql
	}
	return warn(remedy, "not known, for the database does not let this role look: %s", message)
}

// connection answers why no database can be reached, as a result and as an error.
func (e *examiner) connection(ctx context.Context) (Result, error) {
	c := check{name: "connection"}
	limited, cancel := context.WithTimeout(ctx, 2*e.Limit)
	defer cancel()
	began := time.Now()
	var user, name string
	err := e.Pool.QueryRow(limited, `select current_user, current_database()`).Scan(&user, &name)
	if err == nil {
		cfg := e.Pool.Config().ConnConfig
		return c.result(fine("%s:%d, database %s, as %s, within %s", cfg.Host, cfg.Port, name, user,
			time.Since(began).Round(time.Millisecond))), nil
	}
	if f, ok := database.Explain(err); ok {
		return c.result(fail("inboxd config print", "%s; %s", f.Sentence, f.Remedy)), err
	}
	return c.result(fail("inboxd config print", "the database does not answer: %s", firstLine(err.Error()))), err
}

// in puts the schema into a statement.
func (e *examiner) in(sql string) string { return strings.ReplaceAll(sql, "{schema}", e.schema) }

// role is the present role.
func (e *examiner) role(ctx context.Context) (string, error) {
	var role string
	err := e.Pool.QueryRow(ctx, `select current_user`).Scan(&role)
	return role, err
}

// rows reads all rows of a query into structs, by position.
func rows[T any](ctx context.Context, e *examiner, sql string, args ...any) ([]T, error) {
	found, err := e.Pool.Query(ctx, e.in(sql), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByPos[T])
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}

// count writes a number with its noun: 1 lane, 2 lanes.
func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// age rounds a duration for people.
func age(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
