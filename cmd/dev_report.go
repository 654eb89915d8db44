package cmd

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/inboxd/inboxd/handlers"
	"github.com/inboxd/inboxd/internal/config"
	"github.com/inboxd/inboxd/internal/dev"
)

// sampleReport is the report of a sample in JSON.
type sampleReport struct {
	Events      int64             `json:"events"`
	Aggregates  int64             `json:"aggregates"`
	SentTwice   int64             `json:"sent_twice"`
	Redelivered int64             `json:"redelivered"`
	Stored      int64             `json:"stored"`
	Duplicates  int64             `json:"duplicates"`
	Processed   int64             `json:"processed"`
	Waiting     int64             `json:"waiting"`
	Failures    int64             `json:"failed_attempts"`
	Quarantined int               `json:"quarantined"`
	Stuck       []sampleStuckLane `json:"stuck"`
	Violations  int64             `json:"violations"`
	SweptShare  float64           `json:"swept_share"`
	Seconds     float64           `json:"seconds"`
}

type sampleStuckLane struct {
	AggregateID string `json:"aggregate_id"`
	EventID     string `json:"event_id"`
	Error       string `json:"error"`
	Behind      int64  `json:"behind"`
}

// showSample writes the report.
func (a *app) showSample(r *dev.Report) error {
	if a.output != formatTable {
		return a.showJSON(sampleJSON(r))
	}
	var b bytes.Buffer
	writeSample(&b, r)
	b.WriteString("\nNext, type:\n")
	for _, command := range a.sampleCommands(r) {
		b.WriteString("  " + command + "\n")
	}
	_, err := a.stdout.Write(b.Bytes())
	return wroteStdout(err)
}

func sampleJSON(r *dev.Report) sampleReport {
	j := sampleReport{
		Events: r.Sent.Events, Aggregates: r.Aggregates, SentTwice: r.Sent.Twice, Redelivered: r.Again,
		Stored: r.Stored, Duplicates: r.Counts.Duplicates, Processed: r.Processed, Waiting: r.Waiting,
		Failures: r.Failures, Quarantined: len(r.Quarantine), Stuck: []sampleStuckLane{},
		Violations: r.Violations.Total(), SweptShare: sweptShare(r), Seconds: r.Took.Seconds(),
	}
	for _, l := range r.Stuck {
		j.Stuck = append(j.Stuck, sampleStuckLane{l.AggregateID, l.EventID, l.Error, l.Followers})
	}
	return j
}

func sweptShare(r *dev.Report) float64 {
	return float64(r.Counts.Swept) / float64(max(r.Counts.Processed, 1))
}

// writeSample writes what a newcomer needs to understand what happened.
func writeSample(b *bytes.Buffer, r *dev.Report) {
	line := func(n int64, one, many string) {
		fmt.Fprintf(b, "%9s  %s\n", thousands(n), agree(n, one, many))
	}
	say := func(format string, args ...any) { fmt.Fprintf(b, format, args...) }
	say("The sample shop, seed %d: orders and payments, %s.\n", r.Seed, count(r.Aggregates, "aggregate"))
	say("\nsent to Kafka\n")
	line(r.Sent.Events, "event", "events")
	line(r.Sent.Twice, "of them a second time, as a producer does that got no answer", "of them a second time, as a producer does that got no answer")
	line(r.Sent.Poison, "record that is no event", "records that are no events")
	say("\nstored in the inbox\n")
	const cause = "came a second time: the consumer was stopped half-way and its offsets set back"
	line(r.Again, "record "+cause, "records "+cause)
	line(r.Counts.Duplicates, "duplicate dropped", fmt.Sprintf("duplicates dropped (%s + %s)", thousands(r.Sent.Twice), thousands(r.Again)))
	line(r.Stored, "event stored", "events stored")
	line(int64(len(r.Quarantine)), "record in quarantine, bytes intact", "records in quarantine, bytes intact")
	say("\nprocessed\n")
	line(r.Processed, "event processed", "events processed")
	line(r.Failures, "attempt failed and was undone", "attempts failed and were undone"+recovered(r.Recovered))
	line(r.Waiting, "event waits in a stuck lane", "events wait in "+count(int64(len(r.Stuck)), "stuck lane"))
	violated := fmt.Sprintf("counted in the table shop.effects: %d doubled, %d out of order, %d lost",
		r.Violations.Doubled, r.Violations.Disordered, r.Violations.Lost)
	line(r.Violations.Total(), "order violation ("+violated+")", "order violations ("+violated+")")
	say("\nThat took %.1f s, two starts of the consumer included: %s events a second, half of them committed within\n%s of being stored. The sweep found %.1f %% of them, notifications the rest.\n",
		r.Took.Seconds(), thousands(int64(float64(r.Processed)/r.Took.Seconds())), r.Median.Round(100*time.Microsecond), 100*sweptShare(r))
	writeHeld(b, r)
}

// maxHeldShown bounds how many stuck lanes and quarantined records are told of.
const maxHeldShown = 3

// writeHeld writes what needs a person, and why.
func writeHeld(b *bytes.Buffer, r *dev.Report) {
	for _, l := range r.Stuck[:min(len(r.Stuck), maxHeldShown)] {
		fmt.Fprintf(b, "\nLane %s is stuck: its event %s (%s) failed %s, and %s behind it. No other lane waits for it.\n  %s\n",
			l.AggregateID, l.EventID, l.EventType, count(int64(l.Attempts), "time"),
			count(l.Followers, "event")+agree(l.Followers, " waits", " wait"), printable(l.Error))
	}
	for _, q := range r.Quarantine[:min(len(r.Quarantine), maxHeldShown)] {
		fmt.Fprintf(b, "\nQuarantine holds record %d (topic %s, partition %d, offset %d), which could not become an event:\n  %s\n",
			q.ID, q.Topic, q.Partition, q.Offset, printable(q.Detail))
	}
}

func recovered(events []dev.Recovered) string {
	if len(events) == 0 {
		return ""
	}
	return fmt.Sprintf("; event %s succeeded at attempt %d", events[0].EventID, events[0].Attempt)
}

// sampleCommands are three that work as they are written.
func (a *app) sampleCommands(r *dev.Report) []string {
	aggregate, quarantined := "order-001", int64(1)
	if len(r.Stuck) > 0 {
		aggregate = r.Stuck[0].AggregateID
	}
	if len(r.Quarantine) > 0 {
		quarantined = r.Quarantine[0].ID
	}
	return []string{
		a.devCommand("lanes list", "--state stuck"),
		a.devCommand("lanes show "+aggregate, ""),
		a.devCommand(fmt.Sprintf("quarantine show %d", quarantined), ""),
	}
}

// devCommand writes a command line for the development servers, the program as
// it was called.
func (a *app) devCommand(command, flags string) string {
	words := []string{shellWord(os.Args[0]), command, "--dev"}
	if a.global.dir != "" {
		words = append(words, "--dir", shellWord(a.global.dir))
	}
	if a.global.config != "" {
		words = append(words, "--config", shellWord(a.global.config))
	}
	if flags != "" {
		words = append(words, flags)
	}
	return strings.Join(words, " ")
}

// devServers says where the development servers are.
type devServers struct {
	PostgreSQL   string   `json:"postgresql"`
	PasswordFile string   `json:"password_file"`
	Kafka        string   `json:"kafka"`
	Topics       []string `json:"topics"`
}

// showDev writes where the servers are and what to do next.
func (a *app) showDev(i *dev.Instance, c *config.Config, reg *handlers.Registry) error {
	if a.output != formatTable {
		return a.showJSON(devServers{i.PublicURL(), i.PasswordFile(), i.Broker.Addr(), c.Kafka.Topics})
	}
	var b bytes.Buffer
	writeFields(&b, []field{
		{"PostgreSQL", i.PublicURL()},
		{"password", "in " + i.PasswordFile()},
		{"Kafka", i.Broker.Addr()},
		{"topics", c.Kafka.Topics},
	})
	b.WriteString("\nNext, in another terminal:\n")
	for _, command := range a.devCommands(i) {
		b.WriteString("  " + command + "\n")
	}
	if len(reg.Types()) == 0 {
		b.WriteString("\nNo event type has a handler yet, so the lane of each event will be stuck. Write inboxd.yaml and start again:\n" +
			"  handlers:\n    OrderPaid:\n      sql: insert into paid (order_id) values (@aggregate_id)\n")
	}
	b.WriteString("\nCtrl-C stops it; the next start goes on.\n\n")
	_, err := a.stdout.Write(b.Bytes())
	return wroteStdout(err)
}

// devCommands are what to type beside a running inboxd dev.
func (a *app) devCommands(i *dev.Instance) []string {
	const event = `{"event_id": "e-1", "aggregate_id": "order-1", "event_type": "OrderPaid", "payload": {"amount": 12}}`
	first := "echo " + shellWord(event) + " | " + a.devCommand("ingest", "")
	if i.Database != dev.Own {
		first = a.devCommand("events list", "--limit 20")
	}
	return []string{
		first,
		a.devCommand("lanes list", ""),
		fmt.Sprintf("PGPASSWORD=$(cat %s) psql %s", shellWord(i.PasswordFile()), shellWord(i.PublicURL())),
	}
}
