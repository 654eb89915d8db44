package cmd

import (
	"bytes"
	"io"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/inboxd/inboxd/admin"
)

const (
	eventUUID     = "0197a3c2-5f1e-7a4d-9c3b-2f6d8e1a0b4c"
	aggregateUUID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
)

// fits fails the test if a line of a table is too wide.
func fits(t *testing.T, table []byte) {
	t.Helper()
	for line := range bytes.Lines(table) {
		if w := runewidth.StringWidth(strings.TrimRight(string(line), "\n")); w > maxTableWidth {
			t.Errorf("%d columns: %s", w, line)
		}
	}
}

func TestSpareColumnsAreLeftOut(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := admin.Event{EventID: eventUUID, AggregateID: aggregateUUID, EventType: "Deposited", ReceivedAt: now, ProcessedAt: &now}
	table := tableOf(eventColumns, []admin.Event{e}, false)
	fits(t, table)
	expect(t, string(table), ""+
		"EVENT                                 AGGREGATE                             TYPE      AGE  FATE\n"+
		eventUUID+"  "+aggregateUUID+"  Deposit…  0s   processed\n")
	e.EventID = "ev-1"
	if table := tableOf(eventColumns, []admin.Event{e}, false); !bytes.Contains(table, []byte("POS")) {
		t.Errorf("there is room for every column:\n%s", table)
	}
}

// TestLongNamesTakeSeveralLines: a name is typed again, and never cut.
func TestLongNamesTakeSeveralLines(t *testing.T) {
	t.Parallel()
	aggregate, event, why := aggregateUUID, eventUUID, "a test event that was produced by mistake"
	rows := []admin.AuditEntry{
		{At: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Actor: "shop/ada", Action: "skip", AggregateID: &aggregate, EventID: &event, Reason: &why},
		{At: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Actor: "shop/ada", Action: "retry"},
	}
	table := tableOf(auditListColumns, rows, true)
	fits(t, bytes.ReplaceAll(bytes.ReplaceAll(table, []byte("\x1b[1m"), nil), []byte("\x1b[0m"), nil))
	expect(t, string(table), ""+
		"\x1b[1mAT                    WHO       WHAT   AGGREGATE\x1b[0m\n"+
		"\x1b[1m  EVENT                                 WHY\x1b[0m\n"+
		"2026-01-31T12:00:00Z  shop/ada  skip   "+aggregateUUID+"\n"+
		"  "+eventUUID+"  a test event that was produced by mistake\n"+
		"2026-01-31T12:00:00Z  shop/ada  retry  -\n"+
		"  -                                     -\n")
}

func TestNamesAreNoLines(t *testing.T) {
	t.Parallel()
	d := &admin.LaneDetail{Lane: admin.Lane{
		AggregateID: "a\nstate  idle", State: admin.Stuck,
		Head: &admin.Head{EventID: "e\n1", EventType: "Paid\r\nx", Position: 1},
	}}
	var b bytes.Buffer
	writeFields(&b, laneFields(d, nil))
	e := &admin.EventDetail{Event: admin.Event{EventID: "e\n1", AggregateID: "a\n1", EventType: "Paid\n1"}}
	writeFields(&b, eventFields(e))
	for _, want := range []string{`aggregate  a\nstate  idle` + "\n", `head       Paid\r\nx e\n1 at position 1`, `behind Paid\r\nx e\n1`, `event      e\n1` + "\n", `aggregate  a\n1` + "\n", `type       Paid\n1` + "\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %s in\n%s", want, b.String())
		}
	}
}

func TestLineBreaksOfWindows(t *testing.T) {
	t.Parallel()
	expect(t, printableLines("one\r\ntwo\rthree\r\n"), "one\ntwo\\rthree")
}

func TestShellWord(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"order-17": "order-17", "": "''", "it's": `'it'\''s'`, "a b": "'a b'", "日本": "'日本'", `a\b`: `'a\b'`,
		"a\x1b]0;x\a\nb": `$'a\033]0;x\007\012b'`, "日'\\\n": `$'日\'\\\012'`, "\xff\xfe": `$'\377\376'`,
	} {
		if got := shellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
		if got := shellWord(word); printable(got) != got {
			t.Errorf("%q cannot be shown: %q", word, got)
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", time.Hour: "1h", 90 * time.Second: "1m30s", 100 * time.Millisecond: "100ms", 0: "0s", 10 * time.Second: "10s", 70 * time.Minute: "1h10m",
	} {
		expect(t, brief(d), want)
	}
}

// What the columns do not say of a change stands before its reason.
func TestAuditIsWords(t *testing.T) {
	t.Parallel()
	late := "late"
	for _, tc := range []struct {
		action, detail string
		reason         *string
		what, why      string
	}{
		{"refused", `{"why":"moved","action":"skip"}`, &late, "no skip", "not made, its event was processed or skipped meanwhile: late"},
		{"refused", `{"why":"gone","action":"replay"}`, nil, "no replay", "not made, its event is not kept any more"},
		{"retry", `{"state":"stuck"}`, nil, "retry", "-"},
		{"skip", `{"state":"stuck"}`, &late, "skip", "late"},
		{"edit", "", &late, "edit", "late"},
		{"breaker-open", `{"event_type":"Paid","fingerprint":"f"}`, &late, "breaker-open", "Paid: late"},
		{"breaker-close", `{"event_type":"Paid"}`, nil, "breaker-close", "Paid"},
		{"discard", `{"id":7,"topic":"orders","partition":0,"offset":9}`, &late, "discard", "record 7, orders/0/9: late"},
		{"requeue", `{"id":7,"topic":null,"partition":null,"offset":null}`, nil, "requeue", "record 7"},
		{"reset", `{"group":"g","topic":"orders","partitions":[]}`, nil, "reset", "orders of g"},
	} {
		e := admin.AuditEntry{Action: tc.action, Reason: tc.reason, Detail: []byte(tc.detail)}
		expect(t, cellText(auditWhat(e))+" | "+cellText(auditWhy(e)), tc.what+" | "+tc.why)
	}
}

func TestCountingEndsSomewhere(t *testing.T) {
	t.Parallel()
	for counted, want := range map[int]string{
		100: "", 101: "1 more lanes; -o json shows all\n", 150: "50 more lanes; -o json shows all\n",
		151: "more than 50 more lanes; -o json shows all\n",
	} {
		var stderr bytes.Buffer
		l := bounded[row]{
			listing: listing[row]{columns: rowColumns, noun: "lanes"},
			from:    func(limit int) iter.Seq2[row, error] { return each(rowsOf(limit)) },
			count:   func() (int, error) { return counted, nil }, most: 151,
		}
		if err := l.write(&app{stdout: io.Discard, stderr: &stderr, output: formatTable}, 0); err != nil {
			t.Fatal(err)
		}
		expect(t, stderr.String(), want)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	a := &app{stderr: &stderr}
	p := a.progressOf("retried", "lane", 1120)
	for n := range int64(1121) {
		p.at(n)
	}
	p.end()
	expect(t, stderr.String(), "") // it is no terminal
	p.shown = true
	for _, n := range []int64{1, 49, 50, 51, 1020, 1120} {
		p.at(n)
	}
	p.end()
	const clear = "\r\x1b[K"
	expect(t, stderr.String(), clear+"retried 50 of 1,120 lanes"+clear+"retried 1,020 of 1,120 lanes"+clear+"retried 1,120 of 1,120 lanes"+clear)
}
