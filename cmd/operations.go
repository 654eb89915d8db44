package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"github.com/inboxd/inboxd/admin"
)

// operate opens the database, runs what an operator asked for, and gives its
// failure the exit code.
func (a *app) operate(ctx context.Context, f func(*admin.Admin) error) error {
	db, err := a.openDatabase(ctx)
	if err != nil {
		return err
	}
	defer db.close()
	return operationFailure(f(admin.New(db.pool, db.schema)))
}

// operationFailure gives an error of package admin its exit code.
func operationFailure(err error) error {
	var known *exitError
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, admin.ErrInvalid):
		return wrongUse("%w", err)
	case errors.Is(err, admin.ErrNotFound):
		return notFound("%w", err)
	case errors.Is(err, admin.ErrRefused):
		return refused("%w", err)
	}
	return databaseFailure(err)
}

// bounded is a listing of which a table reads no more rows than it shows.
type bounded[T any] struct {
	listing[T]
	from  func(limit int) iter.Seq2[T, error]
	count func() (int, error) // of all rows
	most  int                 // count counts no more than these; 0: it counts all
}

// write writes the rows, up to limit if it is not 0.
func (l bounded[T]) write(a *app, limit int) error {
	if limit < 0 {
		return wrongUse("the limit is %d, but must not be negative", limit)
	}
	if a.output != formatTable {
		l.rows = l.from(limit)
		return l.listing.write(a)
	}
	rows, shown := maxTableRows, 0
	if limit > 0 {
		rows = min(rows, limit)
	}
	l.rows = func(yield func(T, error) bool) {
		for row, err := range l.from(rows) {
			shown++
			if !yield(row, err) {
				return
			}
		}
	}
	if err := l.listing.write(a); err != nil || shown < maxTableRows {
		return err
	}
	total, err := l.count()
	if err != nil {
		return err
	}
	if limit > 0 {
		total = min(total, limit)
	}
	switch {
	case l.most > 0 && total == l.most:
		a.say("more than %s more %s; -o json shows all", thousands(int64(total-shown-1)), l.noun)
	case total > shown:
		a.say("%s more %s; -o json shows all", thousands(int64(total-shown)), l.noun)
	}
	return nil
}

// addLimitFlag gives --limit to a command that lists.
func addLimitFlag(cmd *cobra.Command, limit *int, noun string) {
	cmd.Flags().IntVar(limit, "limit", 0, "at most `N` "+noun+" (default: all; a table shows 100)")
}

// addActorFlag gives --actor to a command that changes something.
func (a *app) addActorFlag(cmd *cobra.Command, actor *string) {
	cmd.Flags().StringVar(actor, "actor", "", "`NAME` for the audit, beside the database's user (default: the user of the operating system)")
}

// actorOr is the actor that was named or, if none was, the operating system's
// user.
func (a *app) actorOr(named string) string {
	if named != "" {
		return named
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return firstOf(a.getenv("USER"), a.getenv("LOGNAME"))
}

// asks answers the terminal that questions are answered on, if there is one.
func (a *app) asks() (*os.File, bool) {
	in, ok := a.stdin.(*os.File)
	if !ok {
		return nil, false
	}
	raw, err := in.SyscallConn() // Fd would make it one whose reading Close cannot end
	if err != nil {
		return nil, false
	}
	terminal := false
	err = raw.Control(func(fd uintptr) { terminal = isatty.IsTerminal(fd) })
	return in, err == nil && terminal
}

// confirm asks whether to go on. Without a terminal to ask on it refuses.
func (a *app) confirm(ctx context.Context, what string) error {
	in, ok := a.asks()
	if !ok {
		return refused("%s takes a confirmation, and there is no terminal to ask on; nothing was changed", what).
			withHint("add --yes to do it, or --dry-run to see what it would change")
	}
	_, _ = fmt.Fprintf(a.stderr, "%s? [y/N] ", what) // as say
	answer := make(chan string, 1)
	go func() { // ends with the process if nobody answers
		line, _ := bufio.NewReader(in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(a.stderr) // the cursor stands behind the question
		return failed("interrupted before it was confirmed; nothing was changed")
	case s := <-answer:
		if s == "y" || s == "yes" {
			return nil
		}
	}
	return refused("not confirmed; nothing was changed")
}

// momentFlag is a flag for a time: RFC 3339, or how long ago.
type momentFlag struct {
	at   time.Time
	text string
}

func (m *momentFlag) String() string { return m.text }
func (m *momentFlag) Type() string   { return "TIME" }

// Set makes it a flag's value.
func (m *momentFlag) Set(s string) error {
	m.text = s
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		m.at = time.Now().Add(-d)
		return nil
	}
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return errors.New("it must be a time such as 2026-01-31T12:00:00Z, or how long ago, such as 90m or 24h")
	}
	m.at = at
	return nil
}

// wrapped breaks a text at spaces into lines that fit beside an indent.
func wrapped(s string, indent int) string {
	var b strings.Builder
	width := maxTableWidth - indent
	for i, line := range strings.Split(printableLines(s), "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		used := 0
		for j, word := range strings.Split(line, " ") {
			w := runewidth.StringWidth(word)
			switch {
			case j == 0:
			case used+1+w > width:
				b.WriteByte('\n')
				used = 0
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += w
		}
	}
	return b.String()
}

// section writes the heading of a part of what a command shows.
func section(b io.Writer, title string) {
	_, _ = fmt.Fprintf(b, "\n%s\n", title) // to a buffer
}

// firstLine is a text up to its first line break.
func firstLine(s string) string {
	first, _, _ := strings.Cut(s, "\n")
	return first
}
