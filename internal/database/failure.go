package database

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Failure is why no connection could be opened.
type Failure struct {
	// Sentence is for people and holds no password.
	Sentence string
	// Remedy is what to do about it, a sentence or a command.
	Remedy string

	err error
}

// Error is the sentence.
func (f *Failure) Error() string { return f.Sentence }

// Unwrap gives the driver's error.
func (f *Failure) Unwrap() error { return f.err }

// Explain makes a Failure of an error of the driver that came from opening a
// connection; ok is false for every other error.
func Explain(err error) (f *Failure, ok bool) {
	var connectErr *pgconn.ConnectError
	if !errors.As(err, &connectErr) {
		return nil, false
	}
	f = &Failure{err: err}
	var refusal *pgconn.PgError
	var settings *settingsError
	if errors.As(err, &settings) {
		f.Sentence, f.Remedy = fmt.Sprintf("the database at %s: %s", addresses(connectErr.Config), settings), settings.remedy()
	} else if errors.As(connectErr, &refusal) {
		f.refused(connectErr.Config, refusal)
	} else {
		f.unreachable(connectErr)
	}
	return f, true
}

// refused is for a server that answered and said no.
func (f *Failure) refused(c *pgconn.Config, refusal *pgconn.PgError) {
	at := addresses(c)
	switch refusal.Code {
	case "28P01":
		f.Sentence = fmt.Sprintf("the database at %s does not accept the password of user %q", at, c.User)
		if c.Password == "" {
			f.Sentence = fmt.Sprintf("the database at %s asks for a password of user %q, and none was given", at, c.User)
		}
		f.Remedy = "set the right password as PGPASSWORD, in the URL of INBOXD_DATABASE_URL, or in the file that database.url_file names"
	case "28000":
		f.Sentence = fmt.Sprintf("the database at %s does not let user %q in: %s", at, c.User, refusal.Message)
		f.Remedy = "check the user in database.url or PGUSER, and the server's pg_hba.conf"
	case "3D000":
		f.Sentence = fmt.Sprintf("there is no database %q at %s", c.Database, at)
		f.Remedy = fmt.Sprintf("create it (createdb %s), or name another one in database.url or PGDATABASE", c.Database)
	case "53300":
		f.Sentence = fmt.Sprintf("the database at %s has no connection left for user %q: %s", at, c.User, refusal.Message)
		f.Remedy = "lower database.max_connections, or raise the server's max_connections"
	case "57P03":
		f.Sentence = fmt.Sprintf("the database at %s does not take connections now: %s", at, refusal.Message)
		f.Remedy = "try again when PostgreSQL has started"
	default:
		f.Sentence = fmt.Sprintf("the database at %s refuses the connection: %s (SQLSTATE %s)", at, refusal.Message, refusal.Code)
	}
}

// unreachable is for a server that gave no answer, or none that is PostgreSQL's.
func (f *Failure) unreachable(err *pgconn.ConnectError) {
	at := addresses(err.Config)
	f.Sentence = fmt.Sprintf("no PostgreSQL answers at %s: %s", at, reason(err))
	f.Remedy = "check that PostgreSQL runs there and that database.url is right (inboxd config print shows it)"
	if strings.Contains(err.Error(), "tls error") && !tookTooLong(err) {
		f.Sentence = fmt.Sprintf("the database at %s cannot be reached over TLS: %s", at, strings.TrimPrefix(reason(err), "tls error: "))
		f.Remedy = "set sslmode and sslrootcert in database.url as the server has it, such as sslmode=disable for one without TLS"
	}
}

// reason is the innermost cause in a few words.
func reason(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("the name %q is not known (%s)", dns.Name, dns.Err)
	case tookTooLong(err):
		return "it took too long"
	case errors.As(err, &op):
		return strings.TrimPrefix(op.Err.Error(), "connect: ")
	}
	lines := strings.Split(err.Error(), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if _, after, ok := strings.Cut(last, "): "); ok {
		return after
	}
	return last
}

func tookTooLong(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || pgconn.Timeout(err)
}

// addresses lists where a configuration leads to.
func addresses(c *pgconn.Config) string {
	all := []string{address(c.Host, c.Port)}
	for _, fallback := range c.Fallbacks {
		if a := address(fallback.Host, fallback.Port); !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return strings.Join(all, " or ")
}

func address(host string, port uint16) string {
	if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return fmt.Sprintf("%s (port %d)", host, port)
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
