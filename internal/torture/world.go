//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/inboxd/inboxd/internal/postgres"
)

// How the processes are configured.
const (
	lease          = 4 * time.Second
	handlerTimeout = 8 * time.Second
	drainTime      = 10 * time.Second
	attempts       = 5
	laneWorkers    = 6
	maxConnections = laneWorkers + 6
)

// world is everything that a run is made of.
type world struct {
	opts     options
	dir      string
	began    time.Time
	pg       *postgres.Server
	pgMu     sync.Mutex // held while a fault has the server
	pool     *pgxpool.Pool
	broker   server
	addr     string     // of the broker
	brokerMu sync.Mutex // held while a fault has the broker
	spawn    chan func()
	shop     *family
	team     *family
	stream   *stream
	watcher  *watcher

	findings findings
	faults   faultLog
	held     heldLog
	exits    exitLog
	fixes    repairs
	ends     ends
	numbers  numbers
}

// family is processes that share a schema, a group and a topic.
type family struct {
	name   string // of schema, topic and configuration
	config string // the file
	slots  []*slot
	extra  *slot // joins and leaves
}

// in puts the family's schema into a statement.
func (f *family) in(sql string) string {
	return strings.ReplaceAll(sql, "{schema}", pgx.Identifier{f.name}.Sanitize())
}

// numbers are what the report tells of.
type numbers struct {
	produced, duplicates, conflicts, poison, ignored, effects, stored int
	final, fragile                                                    int
	drainTook                                                         time.Duration
	stopTook                                                          time.Duration
	overAttempts, innocents                                           int
	verify                                                            string
}

func newWorld(ctx context.Context, o options) (*world, error) {
	w := &world{opts: o, spawn: make(chan func()), ends: ends{}}
	go spawner(w.spawn)
	if err := w.makeDirectory(); err != nil {
		return nil, err
	}
	w.stream = newStream(o)
	w.watcher = newWatcher(w)
	if err := w.build(ctx); err != nil {
		w.tearDown()
		w.keepOrRemove(false)
		return nil, err
	}
	return w, nil
}

func (w *world) makeDirectory() (err error) {
	w.dir = w.opts.dir
	if w.dir == "" {
		w.dir, err = os.MkdirTemp(postgres.Scratch(), "inboxd-torture-")
	} else {
		err = os.MkdirAll(w.dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("make the directory of the run: %w", err)
	}
	if err := os.Chmod(w.dir, 0o755); err != nil { // PostgreSQL may run as another user
		return err
	}
	return os.MkdirAll(filepath.Join(w.dir, "crashes"), 0o755)
}

// build starts the servers and makes what the processes need.
func (w *world) build(ctx context.Context) (err error) {
	w.say("directory %s", w.dir)
	w.pg, err = postgres.Start(ctx, postgres.Config{Dir: filepath.Join(w.dir, "postgres"), Fast: true, Settings: map[string]string{
		"log_lock_waits": "on", "log_line_prefix": "%m [%p] %a ",
	}})
	if err != nil {
		return err
	}
	pc, err := pgxpool.ParseConfig(w.pg.URL())
	if err != nil {
		return err
	}
	pc.MaxConns, pc.ConnConfig.RuntimeParams["application_name"] = 12, judgeName
	if w.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), pc); err != nil {
		return err
	}
	if _, err := w.pool.Exec(ctx, businessSQL); err != nil {
		return fmt.Errorf("make the business tables: %w", err)
	}
	if err := w.makeBalances(ctx); err != nil {
		return err
	}
	if err := w.startBroker(ctx); err != nil {
		return err
	}
	if err := w.makeFamilies(); err != nil {
		return err
	}
	for _, f := range []*family{w.shop, w.team} {
		if out, err := w.command(ctx, w.opts.inboxd, f, "migrate", "up").CombinedOutput(); err != nil {
			return fmt.Errorf("inboxd migrate up: %w: %s", err, out)
		}
	}
	return nil
}

// judgeName is what the torture's own sessions are called.
const judgeName = "judge"

func (w *world) makeBalances(ctx context.Context) error {
	names := append(w.stream.names(), sinks()...)
	_, err := w.pool.Exec(ctx, `insert into balances (aggregate_id) select unnest($1::text[])`, names)
	return err
}

// makeFamilies writes the configurations and makes the slots.
func (w *world) makeFamilies() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	w.shop, w.team = &family{name: "shop"}, &family{name: "team"}
	for _, f := range []*family{w.shop, w.team} {
		f.config = filepath.Join(w.dir, f.name+".yaml")
		if err := os.WriteFile(f.config, []byte(w.yaml(f.name, allOf)), 0o644); err != nil {
			return err
		}
	}
	mixed := filepath.Join(w.dir, "mixed.yaml")
	if err := os.WriteFile(mixed, []byte(w.yaml("shop", notInGo)), 0o644); err != nil {
		return err
	}
	for i := range w.opts.processes {
		w.shop.slots = append(w.shop.slots, w.newSlot(fmt.Sprintf("shop-%d", i+1), w.opts.inboxd, w.shop.config, ""))
	}
	w.shop.slots = append(w.shop.slots, w.newSlot("mixed-1", self, mixed, "mixed"))
	w.shop.extra = w.newSlot("shop-extra", w.opts.inboxd, w.shop.config, "")
	for i := range w.opts.workers {
		w.team.slots = append(w.team.slots, w.newSlot(fmt.Sprintf("team-%d", i+1), self, w.team.config, "team"))
	}
	w.team.extra = w.newSlot("team-extra", self, w.team.config, "team")
	return nil
}

// newSlot is a slot for a process that serves. handlers: those in Go, of this
// program as a team's binary.
func (w *world) newSlot(name, program, config, handlers string) *slot {
	return &slot{name: name, world: w, crashes: handlers == "team", make: func(incarnation int) *exec.Cmd {
		cmd := exec.Command(program, "serve", "--config", config, "--log-format", "json")
		cmd.Env = append(os.Environ(), "DATABASE_URL="+w.url(fmt.Sprintf("%s%s/%d", tortured, name, incarnation)))
		if handlers != "" {
			cmd.Env = append(cmd.Env, roleVariable+"=worker", handlersVariable+"="+handlers,
				crashVariable+"="+filepath.Join(w.dir, "crashes"))
		}
		return cmd
	}}
}

// tortured begins the names of the processes' sessions.
const tortured = "torture/"

// url is the database's address for sessions of that name.
func (w *world) url(name string) string {
	return w.pg.URL() + "&application_name=" + strings.ReplaceAll(name, "/", "%2F")
}

// command is a command line of inboxd on a family's schema.
func (w *world) command(ctx context.Context, program string, f *family, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, append(args, "--config", f.config)...)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+w.url("operator"))
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (w *world) slots() []*slot {
	all := append([]*slot{}, w.shop.slots...)
	return append(all, w.team.slots...)
}

func (w *world) families() []*family { return []*family{w.shop, w.team} }

// run produces, has the faults happen, drains, stops, and checks.
func (w *world) run(ctx context.Context) error {
	w.began = time.Now()
	for _, s := range w.slots() {
		if err := s.start(); err != nil {
			return err
		}
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var background sync.WaitGroup
	background.Go(func() { w.watcher.run(watching) })
	defer background.Wait()
	defer stopWatching()
	if err := w.storm(ctx); err != nil {
		return err
	}
	w.say("faults are over, draining")
	if err := w.drain(ctx); err != nil {
		return err
	}
	w.stopAll(ctx)
	stopWatching()
	background.Wait()
	return w.judge(ctx)
}

// storm is the time in which events are produced and faults happen.
func (w *world) storm(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, w.opts.duration)
	defer cancel()
	var parts sync.WaitGroup
	var producing error
	parts.Go(func() {
		producing = w.produce(ctx, limited)
		cancel() // without events there is nothing to torture
	})
	parts.Go(func() { w.repair(limited) })
	parts.Go(func() { w.wreak(ctx, limited) })
	parts.Wait()
	return errors.Join(ctx.Err(), producing)
}

// tearDown ends every process of the run.
func (w *world) tearDown() {
	if w.shop != nil && w.team != nil {
		for _, s := range append(w.slots(), w.shop.extra, w.team.extra) {
			s.end()
		}
	}
	if w.broker != nil {
		w.broker.end()
	}
	if w.pool != nil {
		w.pool.Close()
	}
	if w.pg != nil {
		w.keepServerLog()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := w.pg.Stop(ctx); err != nil {
			w.say("stop PostgreSQL: %v", err)
		}
	}
}

// keepServerLog keeps what the server has said so far; each start begins anew.
func (w *world) keepServerLog() {
	said, err := os.ReadFile(filepath.Join(w.dir, "postgres", "postgres.log"))
	if err != nil {
		return
	}
	f, err := os.OpenFile(filepath.Join(w.dir, "postgres.log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.Write(said) // it is only there for people
}

// keepOrRemove removes the directory, or all of it that is large.
func (w *world) keepOrRemove(failed bool) {
	if w.opts.keep || failed {
		if !w.opts.keep {
			_ = os.RemoveAll(filepath.Join(w.dir, "postgres"))
			_ = os.RemoveAll(filepath.Join(w.dir, "broker"))
		}
		fmt.Fprintf(os.Stderr, "torture: logs and evidence are in %s\n", w.dir)
		return
	}
	if err := os.RemoveAll(w.dir); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
	}
}

// say tells people how it goes.
func (w *world) say(format string, args ...any) {
	at := time.Duration(0)
	if !w.began.IsZero() {
		at = time.Since(w.began)
	}
	fmt.Fprintf(os.Stderr, "%7.2fs %s\n", at.Seconds(), fmt.Sprintf(format, args...))
}

// random is a source for one purpose: what one part of the run draws changes
// nothing for the others.
func (o options) random(purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(o.seed, purpose))
}

// freePort is a loopback port that nobody listens on, outside of those that the
// system gives to outgoing connections.
func freePort(r *rand.Rand) (int, error) {
	var err error
	for range 100 {
		port := 15000 + r.IntN(15000)
		l, e := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if e == nil {
			return port, l.Close()
		}
		err = e
	}
	return 0, err
}
