package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// pgbench runs the handler's statement alone, a transaction each, with so many
// clients. It is the program of that name if there is one that can reach the
// database; otherwise the same is done with this program's driver.
type pgbench struct {
	s          *stage
	aggregates int
	program    string // empty: there is none
	environ    []string
}

func (s *stage) newPgbench(aggregates int) (*pgbench, error) {
	p := &pgbench{s: s, aggregates: aggregates}
	config, err := pgx.ParseConfig(s.b.URL)
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath("pgbench")
	if err == nil && config.TLSConfig == nil { // certificates are left to the driver
		p.program = path
		p.environ = append(os.Environ(), "PGSSLMODE=disable", "PGHOST="+config.Host, "PGPORT="+strconv.Itoa(int(config.Port)),
			"PGUSER="+config.User, "PGPASSWORD="+config.Password, "PGDATABASE="+config.Database)
	}
	return p, nil
}

// name is how results call it.
func (p *pgbench) name() string {
	if p.program == "" {
		return "pgbench's loop"
	}
	return "pgbench"
}

// run runs about so many events: as many for each client.
func (p *pgbench) run(ctx context.Context, clients, events int) (reference side, violations int64, err error) {
	each := max(1, events/clients)
	if p.program == "" {
		if reference, err = p.loop(ctx, clients, each); err != nil {
			return side{}, 0, err
		}
	} else if reference, err = p.runProgram(ctx, clients, each); err != nil {
		return side{}, 0, err
	}
	violations, err = p.effects(ctx, reference.events)
	return reference, violations, err
}

// effects audits the sum alone: the accounts are taken at random, not in order.
func (p *pgbench) effects(ctx context.Context, more int64) (int64, error) {
	a := &p.s.other
	a.done += more
	sum, err := one[int64](ctx, p.s.pool, a.sql(`select coalesce(-sum(amount), 0)::bigint from {accounts}`))
	return max(sum-a.done, a.done-sum), err
}

const pgbenchScript = `\set a random(0, %d)
\set n random(1, 1000000)
%s;
`

// rateLine has the rate without the time that connecting took.
var rateLine = regexp.MustCompile(`tps = ([0-9.]+) \(without initial connection time\)`)

func (p *pgbench) runProgram(ctx context.Context, clients, each int) (side, error) {
	script, err := os.CreateTemp("", "inboxd-pgbench-*.sql")
	if err != nil {
		return side{}, err
	}
	defer os.Remove(script.Name())
	_, err = fmt.Fprintf(script, pgbenchScript, p.aggregates-1, p.s.other.debit("'account-' || :a", ":n"))
	if err := errors.Join(err, script.Close()); err != nil {
		return side{}, err
	}
	cmd := exec.CommandContext(ctx, p.program, "-n", "-M", "prepared", "-f", script.Name(),
		"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, runtime.NumCPU())), "-t", strconv.Itoa(each))
	cmd.Env = p.environ
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return side{}, fmt.Errorf("pgbench: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	found := rateLine.FindSubmatch(out)
	if found == nil {
		return side{}, fmt.Errorf("pgbench gave no rate: %s", bytes.TrimSpace(out))
	}
	rate, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil || rate <= 0 {
		return side{}, fmt.Errorf("pgbench gave the rate %q", found[1])
	}
	events := int64(clients * each)
	return side{events, time.Duration(float64(events) / rate * float64(time.Second))}, nil
}

// loop is what the program does, with this program's driver.
func (p *pgbench) loop(ctx context.Context, clients, each int) (side, error) {
	sql := p.s.other.debit("$1", "$2")
	began := time.Now()
	err := parallel(ctx, clients, func(ctx context.Context, client int) error {
		conn, err := p.s.pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		for i := range each {
			if _, err := conn.Exec(ctx, sql, accountID((client+i*clients)%p.aggregates), i); err != nil {
				return err
			}
		}
		return nil
	})
	return side{int64(clients * each), time.Since(began)}, err
}
