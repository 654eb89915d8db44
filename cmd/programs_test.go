package cmd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/inboxd/inboxd/cmd"
	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/inbox"
	"github.com/inboxd/inboxd/internal/broker"
)

// programs are what the scripts can run.
var programs = map[string]func(){
	// The program itself, and one of a team with handlers of its own.
	"inboxd": func() { cmd.Main(handlers.New()) },
	"shop":   func() { cmd.Main(shop()) },
	// code N PROGRAM ARG… runs a program that has to end with exit code N.
	"code": func() { os.Exit(runExpecting(os.Args[1], os.Args[2:])) },
	// sql QUERY, or SQL on stdin, on the database of DATABASE_URL.
	"sql": func() { must(query(os.Args[1:])) },
	// until QUERY waits until the query answers true.
	"until": func() { must(waitFor(os.Getenv("DATABASE_URL"), os.Args[1])) },
	// lines KIND ARG… writes JSON lines.
	"lines": func() { must(writeLines(os.Args[1], os.Args[2:])) },
	// broker FILE TOPIC… runs a broker until it is stopped; its address is in the file.
	"broker": func() { must(runBroker(os.Args[1], os.Args[2:])) },
	// produce FILE TOPIC sends the lines of stdin, KEY ID TYPE VALUE each, to that broker.
	"produce": func() { must(produce(os.Args[1], os.Args[2])) },
	// endpoint TEMPLATE CONFIG RECEIVED runs a server for webhooks until it is stopped.
	"endpoint": func() { must(runEndpoint(os.Args[1], os.Args[2], os.Args[3])) },
	// shorten FILE TOPIC PARTITION OFFSET deletes the records before the offset.
	"shorten": func() { must(shorten(os.Args[1], os.Args[2], os.Args[3:])) },
	// forget FILE GROUP makes that broker forget a group.
	"forget": func() { must(forget(os.Args[1], os.Args[2])) },
	// awaitfile FILE waits until there is such a file.
	"awaitfile": func() { _, err := awaitFile(os.Args[1]); must(err) },
	// typed runs the commands that a report on stdin tells to type.
	"typed": func() { must(typed()) },
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// shop is a registry with handlers in Go: Slow ends when it is asked to, Deaf
// never does, Told writes two effects.
func shop() *handlers.Registry {
	reg := handlers.New()
	reg.Ignore("OrderViewed")
	handlers.On(reg, "Slow", func(ctx context.Context, tx pgx.Tx, e handlers.Event[string]) error {
		if _, err := tx.Exec(ctx, "insert into effects (aggregate_id, event_id) values ($1, $2)", e.AggregateID, e.ID); err != nil {
			return err
		}
		must(os.WriteFile("started", nil, 0o600))
		<-ctx.Done()
		return ctx.Err()
	})
	handlers.On(reg, "Deaf", func(context.Context, pgx.Tx, handlers.Event[string]) error {
		must(os.WriteFile("started", nil, 0o600))
		select {}
	})
	handlers.On(reg, "Told", func(ctx context.Context, tx pgx.Tx, e handlers.Event[int]) error {
		if _, err := tx.Exec(ctx, "insert into effects (event_id) values ($1)", e.ID); err != nil {
			return err
		}
		var b pgx.Batch
		b.Queue("insert into effects (event_id) values ('batch')")
		return tx.SendBatch(ctx, &b).Close()
	})
	return reg
}

func runExpecting(code string, args []string) int {
	c := exec.Command(args[0], args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		must(err)
	}
	if got := strconv.Itoa(c.ProcessState.ExitCode()); got != code {
		fmt.Fprintf(os.Stderr, "exit code %s, want %s\n", got, code)
		return 1
	}
	return 0
}

// query prints the rows of an answer, columns with bars between them.
func query(args []string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if len(args) == 0 {
		script, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, string(script))
		return err
	}
	answers, err := conn.PgConn().Exec(ctx, args[0]).ReadAll()
	if err != nil {
		return err
	}
	for _, row := range answers[len(answers)-1].Rows {
		fmt.Println(string(bytes.Join(row, []byte("|"))))
	}
	return nil
}

// untilLimit is how long a script waits for something.
const untilLimit = 60 * time.Second

func waitFor(url, query string) error {
	ctx, cancel := context.WithTimeout(context.Background(), untilLimit)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var done bool
		if err := conn.QueryRow(ctx, query).Scan(&done); err != nil {
			return err
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("never came true: %s", query)
		case <-tick.C:
		}
	}
}

func writeLines(kind string, args []string) error {
	switch kind {
	case "megabyte":
		fmt.Printf(`{"event_id":"big","aggregate_id":"a","event_type":"T","payload":"%s"}`+"\n", strings.Repeat("x", 1<<20-2))
	case "nul":
		fmt.Print("{\"event_id\":\"nul\",\"aggregate_id\":\"a\",\"event_type\":\"T\",\"payload\":\"a\x00b\"}\n")
		fmt.Print(`{"event_id":"escaped","aggregate_id":"a","event_type":"T","payload":"a\u0000b"}` + "\n")
		fmt.Print(`{"event_id":"a\u0000b","aggregate_id":"a","event_type":"T"}` + "\n")
	case "events": // COUNT AGGREGATES: numbered within their aggregate, a fifth of the lines duplicates
		count, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		aggregates, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		writeEvents(count, aggregates)
	default:
		return fmt.Errorf("unknown lines %q", kind)
	}
	return nil
}

func writeEvents(count, aggregates int) {
	rng := rand.New(rand.NewPCG(1, 2))
	next := make([]int, aggregates)
	var recent []string
	for i := range count {
		a := rng.IntN(aggregates)
		next[a]++
		line := fmt.Sprintf(`{"event_id":"e-%d","aggregate_id":"a-%d","event_type":"Appended","payload":{"n":%d}}`, i, a, next[a])
		fmt.Println(line)
		if recent = append(recent, line); i%4 == 3 {
			fmt.Println(recent[len(recent)-1-rng.IntN(min(len(recent), 200))])
		}
	}
}

func runBroker(file string, topics []string) error {
	cfg := broker.Config{Topics: map[string]int32{}}
	for _, topic := range topics {
		cfg.Topics[topic] = 2
	}
	b, err := broker.Start(cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := os.WriteFile(file+".new", []byte(b.Addr()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// awaitFile returns what is in a file, once there is one.
func awaitFile(name string) (string, error) {
	deadline := time.After(untilLimit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		content, err := os.ReadFile(name)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return string(content), err
		}
		select {
		case <-deadline:
			return "", fmt.Errorf("the file %s never came", name)
		case <-tick.C:
		}
	}
}

func produce(file, topic string) error {
	address, err := awaitFile(file)
	if err != nil {
		return err
	}
	producer, err := broker.NewProducer(address)
	if err != nil {
		return err
	}
	defer producer.Close()
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var records []*inbox.Record
	for line := range strings.Lines(string(input)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		records = append(records, &inbox.Record{
			Key: []byte(f[0]), Value: []byte(f[3]), Source: inbox.Source{Topic: topic, Partition: broker.ByKey},
			Headers: []inbox.Header{{Name: "id", Value: []byte(f[1])}, {Name: "eventType", Value: []byte(f[2])}},
		})
	}
	return producer.Produce(context.Background(), records...)
}

func typed() error {
	report, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	_, commands, found := strings.Cut(string(report), "Next, type:\n")
	if !found {
		return errors.New("the report does not say what to type")
	}
	for command := range strings.Lines(commands) {
		fmt.Print("$", command)
		c := exec.Command("sh", "-c", command)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.TrimSpace(command), err)
		}
	}
	return nil
}
